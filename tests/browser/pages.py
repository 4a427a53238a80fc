"""What the browser tests share about a page: how to open one more, what it saw, and how its load ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page

Opener = Callable[..., Page]

# Set before the page's own scripts: keeps every event of window.areole from the first one on.
RECORD = """
window.seen = { progress: [], states: [] };
let client;
Object.defineProperty(window, "areole", {
  get: () => client,
  set(value) {
    client = value;
    client.addEventListener("progress", (event) => window.seen.progress.push(event.detail));
    client.addEventListener("state", (event) => window.seen.states.push(event.detail.state));
  },
});
"""


def settled(page: Page) -> dict[str, Any]:
    """What `areole.ready` comes to: {"info"} or {"error": {code, message, details}}."""
    answer: dict[str, Any] = page.evaluate(
        """async () => {
          while (window.areole.state === "idle") await new Promise((resolve) => setTimeout(resolve, 20));
          return window.areole.ready.then(
            (info) => ({ info }),
            ({ code, message, details }) => ({ error: { code, message, details } }),
          );
        }"""
    )
    return answer
