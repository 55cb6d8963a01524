"""The probe process: a request on stdin, JSON lines on stdout and nothing else there."""

import multiprocessing
import os
import subprocess
import sys
from tempfile import TemporaryFile

import pytest

from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import TrainWorkload
from service.jobs.codec import decode_line, encode_request
from service.jobs.contract import (
    FailureKind,
    ModelSource,
    ProbeDevice,
    ProbeFailure,
    ProbeLine,
    ProbeRequest,
    ProbeResult,
    make_task,
)
from worker.probes import __main__ as entry
from worker.probes import measure

assert measure, "forks share what it loads"

CONFIG: dict[str, object] = {
    "model_type": "qwen2",
    "vocab_size": 500,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
}


def run_probe(body: bytes) -> tuple[int, list[ProbeLine]]:
    """Return the exit status and the lines of a fresh probe process."""
    finished = subprocess.run(
        [sys.executable, "-m", "worker.probes"], input=body, capture_output=True, check=False
    )
    return finished.returncode, [decode_line(line) for line in finished.stdout.splitlines()]


def run_forked_probe(body: bytes) -> tuple[int | None, list[ProbeLine]]:
    """Return the same of a probe that is a fork of this process, which has torch loaded."""
    with TemporaryFile() as asked, TemporaryFile() as told:
        asked.write(body)
        asked.seek(0)
        process = multiprocessing.get_context("fork").Process(
            target=_be_probe, args=(asked.fileno(), told.fileno())
        )
        process.start()
        process.join()
        told.seek(0)
        return process.exitcode, [decode_line(line) for line in told]


def _be_probe(asked: int, told: int) -> None:
    os.dup2(asked, 0)
    os.dup2(told, 1)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays open
    sys.exit(entry.main())


def probe_request(config: dict[str, object]) -> bytes:
    """Return a request to train a small model."""
    workload = TrainWorkload(sequence_length=32, precision=POLICIES["bf16_mixed"])
    return encode_request(
        ProbeRequest(
            model=ModelSource(architecture={}, hf_config=config),
            task=make_task(workload),
            layout=Layout(),
            device=ProbeDevice.CPU,
            deadline_s=600.0,
        ),
    )


def test_a_measurement_from_stdin_to_stdout() -> None:
    """Every line is a message of the contract and the last one is the result.

    What a fresh process loads writes nothing (``tests/architecture/test_rooms.py``), so that a fork
    shows the same.
    """
    status, lines = run_forked_probe(probe_request(CONFIG))

    assert status == 0
    assert isinstance(lines[-1], ProbeResult)
    assert lines[-1].peaks.allocated_bytes > 0
    assert not any(isinstance(line, ProbeResult | ProbeFailure) for line in lines[:-1])


@pytest.mark.parametrize("body", [b"", b"{", b'{"model": 1}', b"\xff"])
def test_what_is_no_request_is_refused(body: bytes) -> None:
    """A broken request is answered, not crashed on: a crash would be tried again."""
    status, lines = run_probe(body)

    assert status == 0
    assert [line.kind for line in lines if isinstance(line, ProbeFailure)] == [
        FailureKind.INVALID_REQUEST
    ]


def test_what_goes_wrong_inside_is_told() -> None:
    """An error of a library becomes a failure with its words: the same request would fail the same
    way.
    """
    status, lines = run_forked_probe(probe_request(CONFIG | {"hidden_act": "nonesuch"}))

    assert status == 0
    assert isinstance(lines[-1], ProbeFailure)
    assert "nonesuch" in lines[-1].message
