"""Spans through OpenTelemetry's SDK, over OTLP; only the extra ``telemetry`` brings it, and only ``spans`` imports this."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span as OpenSpan
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from service.telemetry.spans import Kind

MAX_KEPT = 1000
SHORT_TIMEOUT_S = 2.0
"""A process that ends is not held up by a collector that is away for as long as one that goes on."""
_TIMEOUTS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
_KINDS = {kind: SpanKind[kind.name] for kind in Kind}
_PROPAGATOR = TraceContextTextMapPropagator()


class OpenTelemetry:
    """Makes spans and sends them: in batches from a thread, or ``at_end``, for a process that forks or soon is over."""

    def __init__(self, service: str, *, at_end: bool) -> None:
        """Read the rest from the standard variables: endpoint, headers, sampler, resource."""
        exporter = OTLPSpanExporter(timeout=SHORT_TIMEOUT_S if at_end and not _says_timeout() else None)
        self._provider = TracerProvider(resource=_resource(service))
        self._provider.add_span_processor(_AtEnd(exporter) if at_end else BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("headroom", version("gpu-headroom"))

    @contextmanager
    def span(
        self, name: str, *, kind: Kind, parent: str | None, began_ns: int | None, attributes: Mapping[str, str | int]
    ) -> Iterator["_Span"]:
        """Open a span beneath ``parent``, or beneath the one that is open."""
        context = None if parent is None else _PROPAGATOR.extract({"traceparent": parent})
        with self._tracer.start_as_current_span(
            name, context=context, kind=_KINDS[kind], attributes=attributes, start_time=began_ns
        ) as opened:
            yield _Span(opened)

    def traceparent(self) -> str | None:
        """Return the open span as a header."""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier)
        return carrier.get("traceparent")

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


class _Span:
    def __init__(self, opened: OpenSpan) -> None:
        self._opened = opened

    def rename(self, name: str) -> None:
        """Give it the name that was not known when it began."""
        self._opened.update_name(name)

    def note(self, attributes: Mapping[str, str | int | float | bool]) -> None:
        """Add attributes."""
        self._opened.set_attributes(attributes)

    def fail(self, reason: str) -> None:
        """Mark it as failed."""
        self._opened.set_status(Status(StatusCode.ERROR, reason))


class _AtEnd(SpanProcessor):
    """Keeps spans and sends them when the process ends: it starts no thread, so the process may fork and exec."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._kept: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a span that was sampled."""
        if span.context is not None and span.context.trace_flags.sampled and len(self._kept) < MAX_KEPT:
            self._kept.append(span)

    def shutdown(self) -> None:
        """Send what was kept."""
        if self._kept:
            self._exporter.export(self._kept)
        self._exporter.shutdown()


def _resource(service: str) -> Resource:
    told = Resource.create()
    ours = {SERVICE_VERSION: version("gpu-headroom")}
    if str(told.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service"):
        ours[SERVICE_NAME] = service
    return told.merge(Resource(ours))


def _says_timeout() -> bool:
    return any(os.environ.get(name) for name in _TIMEOUTS)
