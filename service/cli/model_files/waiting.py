"""Waiting for a server to record a model."""

import sys
import time
from collections.abc import Callable

import httpx

from service.base.errors import ServiceError
from service.cli.http import Document, build_path, read

POLL_S = 1.0
RECORDING, REFUSED = "recording", "refused"


def wait_for_recording(
    client: httpx.Client, model: Document, *, pause: Callable[[float], None] = time.sleep
) -> Document:
    """Return a stored model once its recording is there, and show how far it is.

    Raises ServiceError for one that cannot be recorded.
    """
    shown = ""
    while model["state"] == RECORDING:
        progress = model["recording"]
        line = f"{progress['progress']:4.0%} {progress['phase']}"
        if line != shown:
            sys.stderr.write(f"headroom: {line}\n")
            sys.stderr.flush()
            shown = line
        pause(POLL_S)
        model = read(client, build_path("models", model["name"]))
    if model["state"] == REFUSED:
        message = f"{model['name']} could not be recorded: {model['recording']['reason']}"
        raise ServiceError(message)
    return model
