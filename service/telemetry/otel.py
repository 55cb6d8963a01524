"""Spans through OpenTelemetry's SDK, over OTLP.

Only the extra ``telemetry`` brings it, and only ``spans`` imports this.
"""

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

from service.telemetry.tracing import Kind

MAX_SPANS = 1000
SHORT_TIMEOUT_S = 2.0
"""A process that ends is not held up by a collector that is away for as long as one that goes on.
"""
_TIMEOUTS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
_KINDS = {kind: SpanKind[kind.name] for kind in Kind}
_PROPAGATOR = TraceContextTextMapPropagator()


class OpenTelemetry:
    """Tracer that makes spans and exports them.

    In batches from a thread, or ``at_end``, for a process that forks or soon is over.
    """

    def __init__(self, service: str, *, at_end: bool) -> None:
        """Read endpoint, headers, sampler and resource from OTEL_* variables."""
        exporter = OTLPSpanExporter(
            timeout=SHORT_TIMEOUT_S if at_end and not _has_timeout() else None
        )
        self._provider = TracerProvider(resource=_build_resource(service))
        self._provider.add_span_processor(
            _ExportAtEnd(exporter) if at_end else BatchSpanProcessor(exporter)
        )
        self._tracer = self._provider.get_tracer("headroom", version("gpu-headroom"))

    @contextmanager
    def span(
        self,
        name: str,
        *,
        kind: Kind,
        parent: str | None,
        began_ns: int | None,
        attributes: Mapping[str, str | int],
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
        """Export the remaining spans."""
        self._provider.shutdown()


class _Span:
    def __init__(self, opened: OpenSpan) -> None:
        self._opened = opened

    def rename(self, name: str) -> None:
        """Give it the name that was not known when it began."""
        self._opened.update_name(name)

    def set_attributes(self, attributes: Mapping[str, str | int | float | bool]) -> None:
        """Add attributes."""
        self._opened.set_attributes(attributes)

    def fail(self, reason: str) -> None:
        """Mark it as failed."""
        self._opened.set_status(Status(StatusCode.ERROR, reason))


class _ExportAtEnd(SpanProcessor):
    """Span processor that exports when the process ends.

    It starts no thread, so the process may fork and exec.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a span that was sampled."""
        if (
            span.context is not None
            and span.context.trace_flags.sampled
            and len(self._spans) < MAX_SPANS
        ):
            self._spans.append(span)

    def shutdown(self) -> None:
        """Export the stored spans."""
        if self._spans:
            self._exporter.export(self._spans)
        self._exporter.shutdown()


def _build_resource(service: str) -> Resource:
    resource = Resource.create()
    attributes = {SERVICE_VERSION: version("gpu-headroom")}
    if str(resource.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service"):
        attributes[SERVICE_NAME] = service
    return resource.merge(Resource(attributes))


def _has_timeout() -> bool:
    return any(os.environ.get(name) for name in _TIMEOUTS)
