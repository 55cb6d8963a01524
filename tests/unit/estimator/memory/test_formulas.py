"""Formulas beside components are in their numbers: worked out, they give the bytes."""

import re

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Component
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload

DEVICE = resolve_gpu("H100-SXM5-80GB").to_device()
_NUMBERS = re.compile(r"[^0-9.e+*()-]+")


def _find(workload: Workload, name: str) -> Component:
    model = load_architecture(resolve_model("gpt2"))
    answer = estimate(model, workload, layout=Layout(), device=DEVICE)
    return next(part for part in answer.components if part.name == name)


def work_out(formula: str) -> float:
    """Return the value of a formula, its words left out."""
    text = re.sub(r"\b(?!e[0-9])[a-zA-Z_]+\b", " ", formula.replace(" x ", " * "))
    return float(eval(_NUMBERS.sub("", text), {"__builtins__": {}}))  # noqa: S307 - numbers alone


@pytest.mark.parametrize(
    ("policy", "each"), [("deepspeed_bf16", 6), ("megatron_bf16", 4), ("bf16_mixed", 2)]
)
def test_gradients_are_all_of_their_copies(policy: str, each: int) -> None:
    """DeepSpeed's bf16 keeps a gradient in fp32 beside the one in 16 bits."""
    workload = TrainWorkload(sequence_length=16, precision=POLICIES[policy])

    part = _find(workload, "gradients")

    assert work_out(part.formula) == pytest.approx(part.bytes, rel=1e-3)
    assert part.bytes == each * 124_439_808


@pytest.mark.parametrize(
    ("prompt", "output"), [(512, 128), (16, 256), (256, 1), (300, 0), (700, 300)]
)
def test_a_cache_has_its_tokens_in_brackets(prompt: int, output: int) -> None:
    """At the prefill it holds the prompts, later what was generated as well."""
    workload = ServeWorkload(num_sequences=32, prompt_tokens=prompt, output_tokens=output)

    part = _find(workload, "kv_cache")

    assert work_out(part.formula) == part.bytes
