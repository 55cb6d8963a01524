"""One Headroom and one Chromium for all browser tests; a page that complains about anything fails
its test.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.watching import Opened, Watch
from tests.e2e.cli.conftest import Running, await_line, headroom
from tests.running.folders import make_folder
from tests.running.forked import make_probe_command

_REQUIRED = os.environ.get("HEADROOM_REQUIRE_BROWSER") == "1"
# The shell comes first: a whole browser also runs pages of its own, of its toolbar and its address
# bar, which cost each context a second of a processor.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_READY = "Headroom is ready at "
# This ends what hangs; of what is slow, as on a machine that is busy elsewhere, it says nothing.
_PATIENCE_MS = 120_000
_EMPTY = "/healthz"
"""A page of the service that does nothing."""

Visit = Callable[..., Opened]


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A context of the browser, and its pages that no test looks at.

    A page costs a process, which starts, and compiles every script, in a second. A test gets one
    that another left.
    """

    context: BrowserContext
    free: list[Page] = field(default_factory=list)

    def take_page(self) -> Page:
        """Return a page for one test."""
        return self.free.pop() if self.free else self.context.new_page()

    def give_back(self, page: Page) -> None:
        """Leave a page to the next test."""
        page.unroute_all()
        page.mouse.move(0, 0)
        page.goto(_EMPTY)
        self.free.append(page)


Rooms = Callable[..., Room]


@pytest.fixture(scope="session")
def chromium() -> str:
    """Return where the browser is; without one browser tests are skipped, or fail where they are
    required.
    """
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is not None:
        return found
    message = (
        f"no browser: none of {', '.join(_NAMES)} is on PATH (Debian: apt-get install {_NAMES[0]})"
    )
    if _REQUIRED:
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """Return a headless browser."""
    expect.set_options(timeout=_PATIENCE_MS)
    with sync_playwright() as playwright:
        # Chromium has no sandbox for root, which is who runs tests in a container.
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def running(chromium: str) -> Iterator[Running]:  # noqa: ARG001 - without a browser nothing is started
    """Return a whole Headroom: it traces, and measures on the CPU."""
    with make_folder() as data_dir:
        probe = ("--probe-command", make_probe_command())
        options = ("--port", "0", "--data-dir", str(data_dir), *probe)
        process = headroom("up", *options)
        line = await_line(process)
        assert line.startswith(_READY), line
        url = line.removeprefix(_READY).strip()
        running = Running(process=process, url=url, data_dir=data_dir)
        yield running
        running.stop()
        process.communicate()


@pytest.fixture(scope="session")
def base_url(running: Running) -> str:
    """Return the address of the service."""
    return running.url


@pytest.fixture(scope="session")
def rooms(browser: Browser, base_url: str) -> Iterator[Rooms]:
    """Return what makes a room; those of a size are one, unless a test asks for a fresh one."""
    known: dict[tuple[str, int, int], Room] = {}

    def made(scheme: str, width: int, height: int) -> Room:
        context = browser.new_context(
            base_url=base_url,
            color_scheme="dark" if scheme == "dark" else "light",
            viewport={"width": width, "height": height},
            reduced_motion="reduce",
            accept_downloads=True,
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.set_default_timeout(_PATIENCE_MS)
        return Room(context=context)

    def room(*, scheme: str, width: int, height: int, fresh: bool) -> Room:
        if fresh:
            return made(scheme, width, height)
        size = scheme, width, height
        if size not in known:
            known[size] = made(*size)
        return known[size]

    yield room
    for one in known.values():
        one.context.close()


@pytest.fixture
def visit(rooms: Rooms) -> Iterator[Visit]:
    """Return what opens a page; the test fails if a page complains, a request fails or a policy is
    broken.

    ``tolerated`` are the statuses of refusals that a test is about. A test whose page leaves
    something in the browser or in the page, as a clock of its own, or that answers for the server
    on all pages, asks for a ``fresh`` one.
    """
    watches: list[Watch] = []
    with ExitStack() as stack:

        def open_page(
            path: str,
            *,
            scheme: str = "light",
            width: int = 1280,
            height: int = 900,
            tolerated: tuple[int, ...] = (),
            fresh: bool = False,
        ) -> Opened:
            room = rooms(scheme=scheme, width=width, height=height, fresh=fresh)
            page = room.take_page()
            stack.callback(room.context.close if fresh else partial(room.give_back, page))
            watch = Watch(tolerated=frozenset(tolerated))
            stack.enter_context(watch.follow(page))
            watches.append(watch)
            page.goto(path)
            return Opened(page=page, watch=watch)

        yield open_page
    assert [complaint for watch in watches for complaint in watch.complaints] == []
