"""What a browser test looks at beside the page itself: complaints, requests, and faults of
accessibility.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from playwright.sync_api import ConsoleMessage, Error, Page, Request, Response

_PAUSE_MS = 20
_SERIOUS = {"serious", "critical"}
_QUIET = {"log", "info", "debug"}
# Chromium says this of every 4xx; the statuses themselves are looked at instead.
_REFUSED = "Failed to load resource"
_OVERTAKEN = "net::ERR_ABORTED"


@dataclass(kw_only=True)
class Watch:
    """Everything that went wrong on a page, in words; not frozen, since Playwright leaves a mark on
    whoever listens.
    """

    tolerated: frozenset[int] = frozenset()
    complaints: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    @contextmanager
    def follow(self, page: Page) -> Iterator[None]:
        """Listen to a page."""
        listeners: tuple[tuple[Any, Callable[[Any], None]], ...] = (
            ("console", self._console),
            ("pageerror", self._failed_script),
            ("requestfailed", self._failed),
            ("response", self._answered),
            ("request", self._asked),
        )
        for event, listener in listeners:
            page.on(event, listener)
        yield
        for event, listener in listeners:
            page.remove_listener(event, listener)

    def asked(self, path: str) -> list[Any]:
        """Return the bodies of the requests to a path, in order."""
        return [
            request.post_data_json
            for request in self.requests
            if request.url.partition("?")[0].endswith(path)
        ]

    def _failed_script(self, error: Error) -> None:
        self.complaints.append(f"uncaught: {error}")

    def _asked(self, request: Request) -> None:
        self.requests.append(request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type not in _QUIET and not message.text.startswith(_REFUSED):
            self.complaints.append(f"console {message.type}: {message.text}")

    def _failed(self, request: Request) -> None:
        # A question that a newer one overtook is given up on purpose.
        if request.failure != _OVERTAKEN:
            self.complaints.append(f"{request.method} {request.url}: {request.failure}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.tolerated:
            self.complaints.append(f"{response.request.method} {response.url}: {response.status}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A page that is watched."""

    page: Page
    watch: Watch


def until(page: Page, condition: Callable[[], object], *, within_s: float = 120.0) -> None:
    """Return as soon as the condition holds; waiting through the page is what lets its events
    in.
    """
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            message = f"{condition} does not hold after {within_s:g} s at {page.url}"
            raise AssertionError(message)
        page.wait_for_timeout(_PAUSE_MS)


def faults_of_access(page: Page, *rules: str, within: str | None = None) -> list[str]:
    """Return the serious and critical faults that axe finds, by these rules or by all, each with
    the elements that have it; ``within`` selects the part of the page that is looked at.
    """
    # Evaluated by the debugger, which the page's policy does not bind.
    page.evaluate(_axe())
    found = page.evaluate(
        "([within, rules]) => axe.run(within ? document.querySelector(within) : document, "
        "{ resultTypes: ['violations'], "
        "...(rules.length ? { runOnly: rules } : {}) })",
        [within, list(rules)],
    )
    return [
        f"{fault['id']}: "
        f"{', '.join(str(node['target']) + ' ' + node['failureSummary'] for node in fault['nodes'])}"  # noqa: E501
        for fault in found["violations"]
        if fault["impact"] in _SERIOUS
    ]


@cache
def _axe() -> str:
    return files("axe_playwright_python").joinpath("axe.min.js").read_text()
