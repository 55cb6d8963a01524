"""Traces that are kept, told by fakes."""

from pathlib import Path

import pytest

from tests.traces import store as kept
from tests.traces.sources import collect_sources
from tests.traces.store import DifferentTraceError, TraceStore

MODULES = ("service.probing.lines",)
QUESTIONS = [str(number) for number in range(64)]
"""Enough for some of the sixteenth that is traced in each run."""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_FOLDER", tmp_path)


def write(*questions: str, adds: bool = False) -> None:
    """Keep a trace of each."""
    writing = TraceStore(name="some", modules=MODULES, writing=True)
    for question in questions:
        assert writing.resolve(question, lambda: "found") == "found"
    writing.write(adds=adds)


def count_traces(store: TraceStore) -> int:
    """Return how many of all questions are traced."""
    traced: list[str] = []

    def ask(question: str) -> None:
        def trace() -> str:
            traced.append(question)
            return "found"

        store.resolve(question, trace)

    for question in QUESTIONS:
        ask(question)
    return len(traced)


def test_what_is_kept_is_traced_once_in_a_while() -> None:
    """A few are traced in each run, always the same."""
    write(*QUESTIONS[:32])
    write(*QUESTIONS[32:], adds=True)

    counts = {count_traces(TraceStore(name="some", modules=MODULES)) for _ in range(2)}

    assert len(counts) == 1
    assert 0 < counts.pop() < len(QUESTIONS) / 4


def test_other_code_traces_everything() -> None:
    """A digest of the modules that trace decides."""
    write(*QUESTIONS)

    other = TraceStore(name="some", modules=("service.probing.refusal",))

    assert other.is_stale
    assert count_traces(other) == len(QUESTIONS)


def test_a_trace_that_differs_from_what_is_kept_is_told() -> None:
    """The message names the file and the command."""
    write(*QUESTIONS)
    store = TraceStore(name="some", modules=MODULES)

    with pytest.raises(DifferentTraceError, match=r"some.json.gz has of it.*tests.traces"):
        assert {store.resolve(question, lambda: "other") for question in QUESTIONS} == {"found"}


def test_a_digest_is_of_what_a_module_imports() -> None:
    """An estimator's formulas are held against traces, and are no part of it."""
    sources = set(collect_sources(["worker.probes.trace.backend"]))

    assert {"worker/probes/trace/run.py", "service/probing/plan.py"} <= sources
    assert "service/estimator/memory/allocator/caching_allocator.py" in sources
    assert "service/estimator/model/modules/attention/self_attention.py" not in sources
