"""Compiled steps of transformers, beside what inductor's partitioner keeps."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Basis, Estimate
from service.estimator.values.workload import Checkpointing, TrainWorkload
from tests.accuracy.compiled.kept import count_answered

H100 = resolve_gpu("H100-SXM5-80GB").to_device()
COMPILED = TrainWorkload(
    sequence_length=1024, micro_batch_size=4, precision=POLICIES["amp_bf16"], compile=True
)
KEPT = {
    ("llama", "amp_bf16"): 11304,
    ("llama", "bf16"): 10280,
    ("qwen3", "amp_bf16"): 12392,
    ("qwen3", "bf16"): 11368,
    ("gemma", "amp_bf16"): 11304,
    ("gemma3_text", "amp_bf16"): 13424,
}
"""Bytes per token and layer by torch 2.13's partitioner, which ``python -m
tests.accuracy.compiled`` counts.
"""


def ask(workload: TrainWorkload, name: str = "llama-3.2-1b") -> Estimate:
    """Return the answer for one H100."""
    model = load_architecture(resolve_model(name))
    return estimate(model, workload, layout=Layout(), device=H100)


@pytest.mark.parametrize(("family", "policy"), KEPT)
def test_a_layer_keeps_what_the_partitioner_keeps(family: str, policy: str) -> None:
    """Inputs of products and attention, residuals, and the numbers of each row."""
    assert count_answered(family, policy) == KEPT[family, policy]


def test_intervals_reach_from_reused_logits_to_the_step_without_compile() -> None:
    """Compiling never needs more, and the answer says what is open."""
    compiled, eager = ask(COMPILED), ask(replace(COMPILED, compile=False))
    logits = 4 * 1024 * 128256 * 2

    assert compiled.device_bytes < eager.device_bytes
    assert compiled.device_interval.high == eager.device_interval.high
    assert compiled.allocated_bytes - compiled.allocated_interval.low >= logits
    assert any(warning.startswith("compile:") for warning in compiled.warnings)


def test_what_a_compiler_keeps_is_told_as_a_rule() -> None:
    """Its activations are a count of inductor's choice, weights and states are exact."""
    parts = {part.name: part for part in ask(COMPILED).components}

    assert parts["activations"].basis is Basis.FORMULA
    assert "every tensor kept" not in parts["activations"].formula
    assert "partitioner" in parts["activations"].source
    assert parts["weights"].basis is Basis.EXACT


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        (COMPILED, "gpt2"),
        (replace(COMPILED, activation_checkpointing=Checkpointing.FULL), "llama-3.2-1b"),
    ],
)
def test_what_is_not_known_of_a_compiled_step_is_refused(
    workload: TrainWorkload, name: str
) -> None:
    """Other families, and checkpoints."""
    with pytest.raises(NotModelledError, match="compile"):
        ask(workload, name)
