"""Spans for OpenTelemetry, or nothing.

Without an endpoint nothing of it is imported, and a span costs a look at a variable.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from types import TracebackType
from typing import Self

from service.base.startup_errors import StartupError
from service.telemetry.tracing import Kind, Span, Tracing

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
_EXTRA = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


class _NoSpan:
    """Span that is not recorded."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def rename(self, name: str) -> None:
        """Do nothing."""

    def set_attributes(self, attributes: Mapping[str, str | int | float | bool]) -> None:
        """Do nothing."""

    def fail(self, reason: str) -> None:
        """Do nothing."""


NO_SPAN = _NoSpan()


class _Process:
    """Tracer of this process.

    Like its log, and like OpenTelemetry's own tracer, there is one per process.
    """

    tracing: Tracing | None = None


def span(
    name: str,
    *,
    kind: Kind = Kind.INTERNAL,
    parent: str | None = None,
    began_ns: int | None = None,
    **attributes: str | int,
) -> AbstractContextManager[Span]:
    """Return a span to be entered.

    ``parent`` is a traceparent, ``began_ns`` a time in the past.
    """
    tracing = _Process.tracing
    if tracing is None:
        return NO_SPAN
    return tracing.span(name, kind=kind, parent=parent, began_ns=began_ns, attributes=attributes)


def is_traced() -> bool:
    """Return whether this process sends spans."""
    return _Process.tracing is not None


def get_traceparent() -> str | None:
    """Return the open span as a header, None where nothing is traced."""
    return None if _Process.tracing is None else _Process.tracing.traceparent()


def is_tracing_enabled(environ: Mapping[str, str]) -> bool:
    """Return whether spans are to be sent.

    Refuses settings that would send none without a word.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or not any(
        environ.get(name) for name in _ENDPOINTS
    ):
        return False
    exporter = environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    if exporter == "none":
        return False
    protocol = next((environ[name] for name in _PROTOCOLS if environ.get(name)), _PROTOCOL)
    if (exporter, protocol) != ("otlp", _PROTOCOL):
        message = (
            f"spans are sent as OTLP over {_PROTOCOL} only, and OTEL_* asks for {exporter} over "
            f"{protocol}"
        )
        raise StartupError(message)
    missing = [name for name in _EXTRA if not _is_installed(name)]
    if missing:
        message = (
            f"OTEL_EXPORTER_OTLP_ENDPOINT is set and {missing[0]} is not installed: pip install "
            "'gpu-headroom[telemetry]', or unset it"
        )
        raise StartupError(message)
    return True


def start(service: str, *, at_end: bool = False) -> None:
    """Start sending spans as ``service``.

    Only where the environment names an endpoint; ``at_end`` sends all of them at once.
    """
    if _Process.tracing is not None or not is_tracing_enabled(os.environ):
        return
    # Half a second of imports that nobody pays who does not trace.
    from service.telemetry.otel import OpenTelemetry  # noqa: PLC0415

    _Process.tracing = OpenTelemetry(service, at_end=at_end)


def stop() -> None:
    """Send the remaining spans and stop tracing."""
    tracing, _Process.tracing = _Process.tracing, None
    if tracing is not None:
        tracing.close()


@contextmanager
def send_spans(service: str, *, at_end: bool = False) -> Iterator[None]:
    """Send spans for the length of a block."""
    start(service, at_end=at_end)
    try:
        yield
    finally:
        stop()


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
