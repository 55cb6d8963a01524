"""The driver's management library behind a few typed functions; ``api`` is the module ``pynvml``, or a fake of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

Api = Any
Handle = Any
T = TypeVar("T")


class NvmlUnavailableError(RuntimeError):
    """There is no driver to ask, or nothing to ask it with."""


@contextmanager
def opened(api: Api = None) -> Iterator[Api]:
    """Give the library, initialised; raises NvmlUnavailableError where there is no driver or binding, or what it says no to."""
    library = _load() if api is None else api
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        message = f"the NVIDIA driver does not answer: {error}"
        raise NvmlUnavailableError(message) from error
    try:
        yield library
    except _errors(library) as error:
        message = f"the NVIDIA driver refuses: {error}"
        raise NvmlUnavailableError(message) from error
    finally:
        library.nvmlShutdown()


def ask(api: Api, question: Callable[[], T]) -> T | None:
    """Return the answer, ``None`` where this driver, this GPU or this user has none."""
    try:
        return question()
    except _errors(api):
        return None


def _errors(api: Api) -> tuple[type[Exception], ...]:
    """Return what the library raises: its own errors, and the binding's where the driver is too old for a function."""
    return api.NVMLError, api.NVMLLibraryMismatchError


def text_of(value: str | bytes) -> str:
    """Return a name as text: older bindings answer bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _load() -> Api:
    # A worker without a GPU needs no binding, so it is loaded when somebody asks.
    try:
        return import_module("pynvml")
    except ImportError as error:
        message = "NVML needs the package nvidia-ml-py; install with: pip install 'gpu-headroom[worker]'"
        raise NvmlUnavailableError(message) from error
