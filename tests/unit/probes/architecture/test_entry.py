"""The recorder's program: its lines, and the bounds of its process."""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from tests.recordings import HELIUM
from worker.probes.architecture import __main__ as entry
from worker.probes.architecture.static import count_parameters


@pytest.fixture(autouse=True)
def _no_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the process of the tests as it is."""
    monkeypatch.setattr(entry, "limit", lambda _processes: None)


def record(config: Mapping[str, object]) -> list[dict[str, Any]]:
    """Return the lines that recording a config writes."""
    lines: list[dict[str, Any]] = []
    entry.record_and_emit(
        config, lambda kind, message: lines.append({"kind": kind, **message}), weights_only=True
    )
    return lines


def test_parameters_are_counted_by_kind() -> None:
    """They are those of the model that transformers builds, and tied ones count once."""
    counted = count_parameters(HELIUM | {"tie_word_embeddings": True})

    table, hidden = 1000 * 64, 64
    assert counted["by_kind"] == {
        "embedding": table,
        "attention": 9 * (2 * 64 * 64 + 2 * 64 * 32),
        "mlp": 9 * 3 * 64 * 160,
        "norm": (2 * 9 + 1) * hidden,
    }
    assert counted["total"] == 2 * table - table + 9 * 43008 + 19 * hidden


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "no_such_type"}, "refuses this config"),
        ({"hidden_size": 2**40, "intermediate_size": 2**40}, "does not run on this config"),
    ],
)
def test_what_transformers_cannot_build_is_refused_in_words(
    change: dict[str, object], message: str
) -> None:
    """An unknown type and a width without end end in one line."""
    (line,) = record(HELIUM | change)

    assert line["kind"] == "refused"
    assert message in line["message"]


def test_variants_are_announced_as_they_are_recorded() -> None:
    """Whoever waits sees what is recorded now."""
    lines: list[object] = []

    announce = entry.announce_variants(2, lambda _kind, message: lines.append(message))
    announce("fp32")
    announce("half")

    assert lines == [
        {"fraction": 0.0, "phase": "recording fp32"},
        {"fraction": 0.5, "phase": "recording half"},
    ]


def test_a_recorder_takes_no_more_memory_than_it_may() -> None:
    """A list without end is refused by the kernel, not by the machine's last byte."""
    script = (
        "from worker.probes.architecture import __main__ as entry\n"
        "entry.limit(2)\n"
        "try:\n    bytearray(entry.MEMORY_BYTES)\n"
        "except MemoryError:\n    print('refused')\n"
    )

    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)

    assert ended.stdout == b"refused\n"
