"""A visitor without a pointer: what has the focus, and how to get it elsewhere."""

from __future__ import annotations

import time
from typing import Any

from playwright.sync_api import FileChooser, Page

FOCUSED = """() => {
  const at = document.activeElement;
  return at === document.body || !at ? null : at.id || at.dataset.preset || at.textContent.trim();
}"""


def focused(page: Page) -> str | None:
    """The id of what has the focus, or else its text; None where nothing has it."""
    answer: str | None = page.evaluate(FOCUSED)
    return answer


def tab_to(page: Page, selector: str, key: str = "Tab", limit: int = 120) -> None:
    """Presses Tab until what the selector means has the focus, and that can be seen."""
    passed = []
    for _ in range(limit):
        page.keyboard.press(key)
        here = page.evaluate(
            """(selector) => {
              const at = document.activeElement;
              const box = at.getBoundingClientRect();
              return { found: at.matches(selector), seen: box.width > 0 && box.height > 0 && at.checkVisibility(),
                       ring: getComputedStyle(at).outlineStyle };
            }""",
            selector,
        )
        passed.append(focused(page))
        if here["found"]:
            assert here["seen"], f"{selector} has the focus and cannot be seen"
            assert here["ring"] != "none", f"{selector} has the focus and does not show it"
            return
    raise AssertionError(f"{key} never reaches {selector}; it went by {passed}")


def type_over(page: Page, text: str) -> None:
    """Replaces what is in the field that has the focus."""
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(text)


def view(page: Page, name: str) -> None:
    """Goes to another view by the navigation."""
    tab_to(page, f'#views a[href="#{name}"]')
    page.keyboard.press("Enter")
    page.wait_for_function("(name) => !document.getElementById(name).hidden", arg=name)


class Choosers:
    """The file choosers that a page opens; to be made well before the first of them.

    Playwright's `expect_file_chooser` switches the interception on in the same breath as the key is pressed, and does
    not wait for it: on a busy machine the key overtakes it, and the chooser opens where nobody sees it.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.opened: list[FileChooser] = []
        page.on("filechooser", lambda chooser: self.opened.append(chooser))

    def choose(self, key: str, file: Any) -> None:
        """Presses the key on the field that has the focus, and gives its chooser the file."""
        self.page.keyboard.press(key)
        deadline = time.monotonic() + 60
        while not self.opened:
            assert time.monotonic() < deadline, f"{key} opens no file chooser"
            self.page.wait_for_timeout(20)
        self.opened.pop().set_files(file)
