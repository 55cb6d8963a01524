"""Recording of the catalogue's models beside a server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread
from litestar import Litestar

from service.api.application import Lifespan
from service.runtime.background_program import BackgroundProgram
from service.runtime.recording_files import RecordingFiles


def make_recording_lifespans(cache_dir: Path | None) -> tuple[Lifespan, ...]:
    """Return the lifespan that records the catalogue's models.

    There is none without a folder to keep the recordings in, nor where they are all kept.
    """
    if cache_dir is None or RecordingFiles(cache_dir).is_complete():
        return ()
    program = BackgroundProgram("service.cli.offline.record", [str(cache_dir)])

    @asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        await anyio.to_thread.run_sync(program.start)
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(program.stop)

    return (lifespan,)
