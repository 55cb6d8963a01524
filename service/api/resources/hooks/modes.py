"""Mode of a hook, the last part of its path."""

from typing import Any

from litestar import Request

from service.base.errors import NotFoundError
from service.usecases.hooks.decision import Mode


def read_mode(request: Request[Any, Any, Any]) -> Mode:
    """Return the mode of a hook's path; without one it only warns.

    Raises NotFoundError for a word that is no mode.
    """
    word = request.path_params.get("mode", Mode.WARN.value)
    if word not in {mode.value for mode in Mode}:
        message = f"there is no mode {str(word)[:40]!r} of a hook; there are {', '.join(Mode)}"
        raise NotFoundError(message)
    return Mode(word)
