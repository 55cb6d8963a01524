"""Tiny models, traced and run on this processor: the same bytes in every stretch, and what fills
the peak.
"""

import pytest

from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import (
    Attention,
    Checkpointing,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.probing.plan import Point
from worker.probes.attention.names import Kernel
from worker.probes.cpu.backend import CpuBackend
from worker.probes.run.backend import ProbeSetup
from worker.probes.run.session import compute_highest, select_steady_stretches
from worker.probes.trace.backend import TraceBackend
from worker.probes.trace.holdings import summarize_peak
from worker.probes.trace.ledger import compute_stretches
from worker.probes.trace.run import TracedRun, run_traced

CONFIG = {
    "model_type": "llama",
    "vocab_size": 640,
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"
    ),  # PEFT still asks for it
    pytest.mark.filterwarnings("ignore:.*Profiler clears events:UserWarning"),
]
POINT = Point(layers=(0, 1), micro_batch_size=2, sequence_length=64)
BF16 = TrainWorkload(sequence_length=64, micro_batch_size=2, precision=POLICIES["bf16"])
SERVING = ServeWorkload(num_sequences=2, prompt_tokens=64, output_tokens=4)
WORKLOADS: dict[str, tuple[Workload, Kernel]] = {
    "full": (BF16, Kernel.FLASH),
    "autocast": (
        TrainWorkload(
            sequence_length=64,
            micro_batch_size=2,
            precision=POLICIES["amp_bf16"],
            attention=Attention.EAGER,
            activation_checkpointing=Checkpointing.FULL,
            gradient_accumulation_steps=2,
        ),
        Kernel.EAGER,
    ),
    "adapters": (
        TrainWorkload(
            sequence_length=64,
            micro_batch_size=2,
            precision=POLICIES["bf16"],
            attention=Attention.MATH,
            optimizer="adamw_fused",
            method=Method.LORA,
            lora=Lora(rank=8),
        ),
        Kernel.MATH,
    ),
    "serving": (SERVING, Kernel.FLASH),
}


MASTERS = TrainWorkload(sequence_length=64, micro_batch_size=2, precision=POLICIES["bf16_mixed"])


def subject(name: str) -> tuple[ProbeSetup, Point]:
    """Return what is run, and where."""
    workload, kernel = (WORKLOADS | {"masters": (MASTERS, Kernel.FLASH)})[name]
    output_tokens = SERVING.output_tokens if workload is SERVING else 0
    point = Point(
        layers=POINT.layers, micro_batch_size=2, sequence_length=64, output_tokens=output_tokens
    )
    return ProbeSetup(config=CONFIG, workload=workload, kernel=kernel), point


def traced(name: str) -> TracedRun:
    """Trace one of the workloads."""
    return run_traced(*subject(name), on_step=lambda _step: None)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_trace_holds_what_a_run_on_this_processor_holds(name: str) -> None:
    """Every stretch peaks within a tenth of a per cent: counters on the host and random states are
    all that differ.

    Flash attention's backward is left to the cases that were traced for CUDA: a CPU's accumulates
    in other pieces.
    """
    real = CpuBackend().run(*subject(name), on_step=lambda _step: None).reading.live
    ledger = traced(name).ledger
    found = compute_highest(
        select_steady_stretches(compute_stretches(ledger, ledger.live())),
        lambda stretch: stretch.live_peak,
    )

    assert found.keys() == real.keys()
    assert found == pytest.approx(real, rel=0.001)


def test_what_fills_the_peak_adds_up_to_it() -> None:
    """Every byte has a kind, and weights, gradients and states have as many bytes as there are
    parameters for them.
    """
    run = traced("full")
    found = summarize_peak(run)

    assert sum(found.by_kind.values()) == found.bytes
    assert found.by_kind["optimizer_states"] == 2 * 2 * _num_parameters()
    assert found.stretch in {
        stretch.name for stretch in compute_stretches(run.ledger, run.ledger.live())
    }


def test_moments_beside_masters_are_states_and_no_temporaries() -> None:
    """The step that reads 16-bit gradients makes its fp32 moments at its first run, and they
    stay.
    """
    found = summarize_peak(traced("masters"))

    assert found.by_kind["master_weights"] == 4 * _num_parameters()
    assert found.by_kind["optimizer_states"] == 2 * 4 * _num_parameters()


def _num_parameters() -> int:
    """Count: an embedding that is the head as well, and in each of two layers attention, gated
    feed-forward and norms.
    """
    attention = 256 * 256 * 2 + 256 * 128 * 2
    return 640 * 256 + 2 * (attention + 3 * 256 * 768 + 2 * 256) + 256


def test_layers_that_are_alike_are_told_once() -> None:
    """A weight of both layers is one line with a count of two."""
    held = {(group.kind, group.name): group for group in summarize_peak(traced("full")).largest}

    assert held["weights", "model.layers.*.mlp.down_proj.weight"].count == 2


def test_the_backend_replays_the_caching_allocator() -> None:
    """No stretch reserves less than it holds, and a plan is told how fast layers are traced, not
    what memory bounds them.
    """
    backend = TraceBackend()
    session = backend.run(*subject("full"), on_step=lambda _step: None)

    assert session.reserved is not None
    assert all(
        session.reserved[name] >= num_bytes for name, num_bytes in session.reading.live.items()
    )
    assert backend.host(BF16.precision.compute_dtype).available_bytes is None
