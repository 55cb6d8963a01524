"""Reading beside the event loop, of what schedulers send at length."""

from collections.abc import Callable
from typing import Any, TypeVar

import anyio.to_thread
from litestar import Request

from service.api.resources.hooks.faults import contain_faults

T = TypeVar("T")
QUICK_BYTES = 1 << 12
"""Up to which a document is read in a millisecond or two, and a thread is not worth its switch."""


async def run_beside(body: bytes, read: Callable[[], T]) -> T:
    """Return what is read or written of a body.

    The event loop answers others meanwhile.
    """
    if len(body) <= QUICK_BYTES:
        return read()
    return await anyio.to_thread.run_sync(read)


async def read_contained(request: Request[Any, Any, Any], body: bytes, read: Callable[[], T]) -> T:
    """Return what is read of a body.

    Raises SubmissionError for a fault, which holds up no job.
    """
    with contain_faults(request):
        return await run_beside(body, read)
