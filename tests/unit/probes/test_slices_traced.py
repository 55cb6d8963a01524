"""What slices say of a whole model, held against the whole model."""

from dataclasses import replace
from typing import Any

import pytest

from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Lora, Method, TrainWorkload
from service.jobs.contract import ModelSource, ProbeDevice, ProbeRequest, ProbeResult, make_task
from tests.tiny_models import tiny_config
from tests.traces.measuring import measure_kept

TRAIN = TrainWorkload(sequence_length=16, micro_batch_size=2, precision=POLICIES["bf16"])
FEW_TOKENS = {"jamba": replace(TRAIN, sequence_length=8)}
"""States that go from token to token take a step for each."""
LORA = replace(TRAIN, method=Method.LORA, lora=Lora(rank=4))
DEEP: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"num_hidden_layers": 7, "first_k_dense_replace": 3},
    "gemma3_text": {"num_hidden_layers": 9, "sliding_window_pattern": 3},
    "jamba": {"num_hidden_layers": 12},
    "llama": {"num_hidden_layers": 8},
    "t5": {"num_layers": 5, "num_decoder_layers": 6},
}
"""Small models that are deep enough to be sliced: dense and sparse, local and global, states, one
kind, two stacks.
"""


def measured(family: str, workload: TrainWorkload, *, full_depth: bool) -> ProbeResult:
    """Return what a trace finds of a deep small model."""
    config = tiny_config(family) | DEEP[family]
    return measure_kept(
        ProbeRequest(
            model=ModelSource(architecture={}, hf_config=config),
            task=make_task(replace(workload, decoder_length=16) if family == "t5" else workload),
            layout=Layout(),
            device=ProbeDevice.TRACE,
            full_depth=full_depth,
            deadline_s=600.0,
        )
    )


def share_off(result: ProbeResult) -> float:
    """Return how far off the slices alone were, in percent, as the result tells it."""
    told = next(note for note in result.notes if note.startswith("the slices alone say"))
    return abs(float(told.rpartition(" ")[2].removesuffix("%")))


@pytest.mark.parametrize("family", sorted(DEEP))
def test_slices_say_what_the_whole_model_holds(family: str) -> None:
    """Each kind of layer apart, each instant by itself, the maximum last: within a thousandth of
    the peak.
    """
    result = measured(family, FEW_TOKENS.get(family, TRAIN), full_depth=True)

    assert len(result.probes) > 2
    assert not result.extrapolated
    assert share_off(result) <= 0.1


@pytest.mark.filterwarnings(
    "ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"
)  # PEFT still asks for it
def test_adapters_are_sliced_too() -> None:
    """Below the first adapter nothing needs a gradient, which the first layer alone shows."""
    assert share_off(measured("llama", LORA, full_depth=True)) <= 0.1


def test_a_trace_of_a_shallow_model_runs_it_whole() -> None:
    """Nothing is computed, so nothing has to be left out where tracing takes a moment."""
    result = measured("llama", TRAIN, full_depth=False)

    assert [probe.num_layers for probe in result.probes] == [8]
    assert not result.extrapolated


def test_what_a_token_adds_is_held_against_the_analytic_curve() -> None:
    """Half the tokens are run as well, and a note says how far off the curve is at the instant
    where it is farthest.
    """
    result = measured("llama", replace(TRAIN, sequence_length=128), full_depth=False)
    told = next(note for note in result.notes if "what a token adds" in note)

    assert [probe.sequence_length for probe in result.probes] == [128, 64]
    assert float(told.rpartition(", ")[2].partition("%")[0]) <= 0.1
