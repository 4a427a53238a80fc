"""Fixtures of the browser tests: the stand-in site and the real one, each in a headless Chromium of the module's own.

A module uses one of `lab` (stand-in), `quick` (stand-in without Python) and `real`: Playwright's synchronous side
allows one at a time in a thread. Run them with `python build.py test`, which builds the site and says in the
environment where everything is.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "web"))  # headless.py and devserver.py belong to the site's folder

from pages import RECORD, Opener  # noqa: E402
from playwright.sync_api import Page, expect  # noqa: E402
from standin import build_quick, build_standin  # noqa: E402

from headless import Headless  # noqa: E402

# A busy machine takes many seconds to start Pyodide; a test that passes waits no longer than it must.
expect.set_options(timeout=float(os.environ.get("AREOLE_PATIENCE", "60")) * 1000)


@pytest.fixture(scope="session")
def site() -> Path:
    """The real site, built if `build.py test` has not done so already."""
    named = os.environ.get("AREOLE_SITE")
    if named:
        return Path(named)
    subprocess.run([sys.executable, str(ROOT / "build.py"), "site"], check=True)
    return ROOT / "build" / "site"


@pytest.fixture(scope="session")
def standin_site(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_standin(tmp_path_factory.mktemp("standin") / "site", site / "pyodide")


@pytest.fixture(scope="module")
def lab(standin_site: Path) -> Iterator[Headless]:
    """The stand-in site, loaded."""
    with Headless(standin_site, query={"trace": "1"}) as tab:
        yield tab


@pytest.fixture(scope="session")
def quick_site(standin_site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_quick(tmp_path_factory.mktemp("quick") / "site", standin_site)


@pytest.fixture(scope="module")
def quick(quick_site: Path) -> Iterator[Headless]:
    """The stand-in site without Python, loaded: for what is only the page's."""
    with Headless(quick_site, query={"trace": "1"}) as tab:
        yield tab


@pytest.fixture(scope="module")
def real(site: Path) -> Iterator[Headless]:
    """The real site with the real weights, loaded."""
    with Headless(site, query={"trace": "1"}) as tab:
        yield tab


@pytest.fixture
def open_page() -> Iterator[Opener]:
    """Opens further pages, each in a context of its own that ends with the test.

    open_page(tab, query="", before=None, **context): `before(page)` runs before the page is opened, for routes.
    """
    with contextlib.ExitStack() as stack:

        def open_one(
            tab: Headless,
            query: str = "",
            before: Callable[[Page], None] | None = None,
            address: str = "",
            **options: Any,
        ) -> Page:
            browser = tab.context.browser
            if browser is None:
                raise RuntimeError("the browser is gone")
            # Requests are answered by routes unless a test is about the service worker.
            context = browser.new_context(**{"service_workers": "block", **options})
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(60_000)
            page.add_init_script(RECORD)
            if before:
                before(page)
            page.goto((address or tab.server.address) + query)
            return page

        yield open_one
