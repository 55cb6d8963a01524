"""The loop closes: what one recorded run teaches, held against other recorded runs."""

from statistics import median

import pytest

from service.calibration.evidence import Quantity
from tests.accuracy.real.closing import answer_case, estimate_case, learn_rows, load_sweep

H100 = load_sweep("h100")
WHOLE = tuple(
    name
    for name, row in H100.rows.items()
    if row.case.layers is None and row.case.layout.num_gpus == 1
)
"""Cases of one GPU at full depth."""
NEIGHBOURS = {
    "models/llama-3.2-1b/amp_bf16 1x1024": tuple(
        f"sizes/llama-3.2-1b/amp_bf16 {size}"
        for size in ("1x512", "1x2048", "2x512", "2x2048", "4x512", "4x2048")
    ),
    "models/qwen3-0.6b/bf16 2x1024": (
        "optimizers/qwen3-0.6b/bf16 adamw",
        "sizes/qwen3-0.6b/bf16 1x8192",
        "sizes/qwen3-0.6b/bf16 8x256",
    ),
    "sizes/qwen3-0.6b/bf16 1x8192": (
        "models/qwen3-0.6b/bf16 2x1024",
        "optimizers/qwen3-0.6b/bf16 adamw",
        "sizes/qwen3-0.6b/bf16 8x256",
    ),
    "models/llama-3.2-1b/serve 8x(1024+64)": ("serving/llama-3.2-1b/1x(8192+64)",),
    "serving/llama-3.2-1b/1x(8192+64)": ("models/llama-3.2-1b/serve 8x(1024+64)",),
}
SLICED = (
    "models/llama-3.2-1b/serve 8x(1024+64)",
    "models/llama-3-8b/bf16 checkpointed fused 1x2048",
    "models/llama-3-8b/serve 8x(2048+128)",
    "models/gpt2/bf16 2x1024",
    "models/qwen3-0.6b/bf16 2x1024",
    "models/gemma-3-1b/bf16 2x1024",
    "models/pythia-1b/bf16 2x1024",
)
"""Cases of which slices were recorded and replay as the whole does."""


@pytest.mark.parametrize("name", WHOLE)
def test_a_measured_question_is_answered_as_it_was_measured(name: str) -> None:
    """Device bytes within 0.5 %, the interval within 1.5 %, every quantity measured."""
    row = H100.rows[name]
    assert row.measured is not None
    assert row.measured.device_bytes is not None

    after = answer_case(H100, row.case, learn_rows(H100, [row]))

    assert after.device_bytes == pytest.approx(row.measured.device_bytes, rel=0.005)
    assert after.device_interval.low >= after.device_bytes * 0.985
    assert after.device_interval.high <= after.device_bytes * 1.015
    assert after.device_interval.low <= row.measured.device_bytes <= after.device_interval.high
    bytes_ = (Quantity.ALLOCATED, Quantity.RESERVED, Quantity.DEVICE)
    assert {after.bases[quantity.value] for quantity in bytes_} == {"measured"}


@pytest.mark.parametrize("name", [name for name in WHOLE if "serve" in name])
def test_prefill_and_decode_are_learnt_apart(name: str) -> None:
    """Each is as long as it was measured, with a ratio of its own."""
    row = H100.rows[name]
    assert row.measured is not None

    after = answer_case(H100, row.case, learn_rows(H100, [row]))

    timed = estimate_case(H100, row.case, after)
    assert timed.step_time_s == pytest.approx(median(row.measured.step_time_s), rel=1e-3)
    assert timed.prefill_time_s == pytest.approx(median(row.measured.prefill_time_s), rel=1e-3)
    assert {after.bases["step_time"], after.bases["prefill_time"]} == {"measured"}


@pytest.mark.parametrize(
    ("measured", "neighbour"),
    [(name, other) for name, others in NEIGHBOURS.items() for other in others],
)
def test_neighbours_of_a_measured_question_are_right(measured: str, neighbour: str) -> None:
    """Another batch or length of the same model is within 1.5 % of what it took."""
    row = H100.rows[neighbour]
    assert row.measured is not None

    after = answer_case(H100, row.case, learn_rows(H100, [H100.rows[measured]]))

    assert after.device_bytes == pytest.approx(row.measured.device_bytes, rel=0.015)
    assert after.bases["reserved"] == "calibrated"


@pytest.mark.parametrize("name", SLICED)
def test_slices_teach_the_whole_model(name: str) -> None:
    """Reserved bytes, context and time come from a few layers: the device within 1.5 %."""
    row = H100.rows[name]
    slices = [other for key, other in H100.rows.items() if key.startswith(f"{name} layers ")]
    assert row.measured is not None

    after = answer_case(H100, row.case, learn_rows(H100, slices))

    assert after.device_bytes == pytest.approx(row.measured.device_bytes, rel=0.015)
    assert {"allocated", "reserved", "device", "step_time"} <= set(after.bases)
    assert set(after.bases.values()) == {"calibrated"}
