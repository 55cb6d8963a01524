"""Fuzz of every door: ``python -m tests.fuzz``.

It changes and grows what each door takes, and prints what ends in a 5xx or in a fault of a hook,
and what takes more than a second of a processor or 200 MB for less than a megabyte. Everything is
computed in this process, files of any size too.
"""

import argparse
import resource
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from litestar.testing import TestClient

from service.api.http.auth import make_open_guard
from service.mcp.endpoint import McpEndpoint
from tests.fuzz.bodies import Door, change_body, grow_body, list_doors
from tests.unit.api.builders import patient_parts, served

MOST_S, MOST_BYTES = 1.0, 200 * 10**6
FAULT = "a fault of Headroom"
_DATABASE_AWAY = 503
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a request was answered, and took."""

    status: int
    text: str
    seconds: float
    num_bytes: int

    @property
    def is_fault(self) -> bool:
        """Whether the service failed; there is no database here."""
        return (self.status >= _SERVER_ERROR and self.status != _DATABASE_AWAY) or (
            FAULT in self.text
        )

    @property
    def is_costly(self) -> bool:
        """Whether it took more than one request may."""
        return self.seconds > MOST_S or self.num_bytes > MOST_BYTES


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz, and return 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--changed", type=int, default=200, help="changed bodies of each door")
    parser.add_argument("--grown", type=int, default=30, help="grown bodies of each door")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--path", default="", help="doors whose path has this in it alone")
    options = parser.parse_args(arguments)
    number, found = 0, 0
    with serve_doors() as client:
        doors = list_doors(client.get("/docs/openapi.json").json())
        for place, door in enumerate(doors):
            if options.path not in door.path:
                continue
            for make, count in ((change_body, options.changed), (grow_body, options.grown)):
                for seed in range(options.first, options.first + count):
                    number += 1
                    found += _try(client, place, door, make, seed)
    print(f"{number} bodies of {len(doors)} doors, {found} findings")  # noqa: T201 - a program
    return 1 if found else 0


def serve_doors() -> AbstractContextManager[TestClient[Any]]:
    """Serve the API and MCP over fakes, with hooks that wait for their answers."""
    return served(patient_parts(), extension=McpEndpoint(make_open_guard(), version="1"))


def ask(client: TestClient[Any], door: Door, body: bytes) -> Cost:
    """Send a body, and return what it took."""
    began, before = time.process_time(), _read_peak()
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    answer = client.request(door.method, door.path, content=body, headers=headers)
    return Cost(
        status=answer.status_code,
        text=answer.text,
        seconds=time.process_time() - began,
        num_bytes=_read_peak() - before,
    )


def _try(
    client: TestClient[Any], place: int, door: Door, make: Callable[[Door, int], bytes], seed: int
) -> bool:
    body = make(door, seed)
    cost = ask(client, door, body)
    if not (cost.is_fault or cost.is_costly):
        return False
    print(  # noqa: T201 - a program
        f"{place} {door.path} {make.__name__} {seed}: {cost.status}, {cost.seconds:.2f} s, "
        f"{cost.num_bytes / 1e6:.0f} MB for {len(body):,} bytes: {cost.text[:120]!r}",
        flush=True,
    )
    return True


def _read_peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    sys.exit(main())
