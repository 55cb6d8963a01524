"""Spans are off unless somebody names an endpoint; then they are sent, or the process says why it
cannot.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from service.base.startup_errors import StartupError
from service.telemetry import spans
from service.telemetry.spans import NO_SPAN, get_traceparent, is_tracing_enabled, span, start

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
UNWANTED = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp")
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "True"}, False),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, False),
        (
            ENDPOINT
            | {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
            True,
        ),
    ],
)
def test_an_endpoint_turns_spans_on(environ: dict[str, str], *, wanted: bool) -> None:
    """The standard variables decide, and an empty one counts as not set."""
    assert is_tracing_enabled(environ) is wanted


@pytest.mark.parametrize(
    "variable", [{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, {"OTEL_TRACES_EXPORTER": "zipkin"}]
)
def test_what_would_be_ignored_is_refused(variable: dict[str, str]) -> None:
    """Somebody who asks for another protocol hears it at the start, and not from an empty page."""
    with pytest.raises(StartupError, match=r"OTLP over http/protobuf only"):
        is_tracing_enabled(ENDPOINT | variable)


def test_without_the_extra_the_start_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint and no OpenTelemetry is no silent nothing."""
    monkeypatch.setattr(spans, "_EXTRA", ("a_package_that_nobody_has.sdk",))

    with pytest.raises(StartupError, match=r"pip install 'gpu-headroom\[telemetry\]'"):
        is_tracing_enabled(ENDPOINT)


def test_off_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an endpoint every span is the same nothing."""
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    start("headroom-test")

    with span("outer", job_id="j") as outer, span("inner") as inner:
        outer.rename("other")
        outer.set_attributes({"a": 1})
        outer.fail("no")

    assert outer is inner is NO_SPAN
    assert get_traceparent() is None


def test_off_nothing_is_imported() -> None:
    """A process that is not traced loads no tracer and no exporter; what redis-py loads by itself
    is its own.
    """
    program = (
        "import sys; from service.telemetry.spans import start, span, stop; from service import "
        "app; start('x')\n"
        "with span('a'): pass\n"
        f"stop(); sys.exit(any(name in sys.modules for name in {UNWANTED}))"
    )
    environ = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}

    ended = subprocess.run(
        [sys.executable, "-c", program], env=environ, cwd=ROOT, check=False, timeout=120
    )

    assert ended.returncode == 0
