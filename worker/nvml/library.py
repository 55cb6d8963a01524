"""Typed access to the driver's management library (NVML).

``api`` is the module ``pynvml``, or a fake of it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

Api = Any
Handle = Any
T = TypeVar("T")
_LIBRARY_NOT_FOUND = 12
"""NVML_ERROR_LIBRARY_NOT_FOUND of nvml.h: libnvidia-ml.so comes with the driver."""


class NvmlUnavailableError(RuntimeError):
    """NVML cannot be used: the driver or the binding is missing."""


class NoDriverError(NvmlUnavailableError):
    """There is no NVIDIA driver on this machine."""


@contextmanager
def open_nvml(api: Api = None) -> Iterator[Api]:
    """Initialise the library for the length of a block.

    Raises NvmlUnavailableError where there is no binding or the driver refuses, NoDriverError where
    there is no driver.
    """
    library = _load_pynvml() if api is None else api
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        if getattr(error, "value", None) == _LIBRARY_NOT_FOUND:
            message = f"there is no NVIDIA driver: {error}"
            raise NoDriverError(message) from error
        message = f"the NVIDIA driver does not answer: {error}"
        raise NvmlUnavailableError(message) from error
    try:
        yield library
    except _get_error_types(library) as error:
        message = f"the NVIDIA driver refuses: {error}"
        raise NvmlUnavailableError(message) from error
    finally:
        library.nvmlShutdown()


def query(api: Api, call: Callable[[], T]) -> T | None:
    """Call the library; None where the driver gives no answer.

    That is so where this driver, this GPU or this user does not support the call.
    """
    try:
        return call()
    except _get_error_types(api):
        return None


def _get_error_types(api: Api) -> tuple[type[Exception], ...]:
    """Return the exception types that the library raises.

    These are its own errors, and the binding's where the driver is too old for a function.
    """
    return api.NVMLError, api.NVMLLibraryMismatchError


def decode_text(value: str | bytes) -> str:
    """Decode a name: older bindings answer bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _load_pynvml() -> Api:
    # A worker without a GPU needs no binding, so it is loaded when somebody asks.
    try:
        return import_module("pynvml")
    except ImportError as error:
        message = (
            "NVML needs the package nvidia-ml-py; install with: pip install 'gpu-headroom[worker]'"
        )
        raise NvmlUnavailableError(message) from error
