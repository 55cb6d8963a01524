"""Recurrent states in a number format that a server names."""

from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Engine, ServeWorkload


def get_formula(part_name: str, name: str, **words: Any) -> str:  # noqa: ANN401 - each word has its own type
    """Return the formula of a part of what a server holds."""
    load: dict[str, Any] = {"num_sequences": 8, "prompt_tokens": 4096, "max_model_len": 32768}
    answer = estimate(
        load_architecture(resolve_model(name)),
        ServeWorkload(**({"engine": Engine.VLLM} | load | words)),
        layout=Layout(),
        device=resolve_gpu("B200-SXM6-180GB").to_device(),
    )
    return next(part.formula for part in answer.components if part.name == part_name)


@pytest.mark.parametrize(
    ("name", "dtype", "tokens"),
    [("qwen3.5-4b", DType.BF16, 272), ("qwen3-next-80b-a3b", DType.FP32, 1056)],
)
def test_a_server_names_another_format_of_states(name: str, dtype: DType, tokens: int) -> None:
    """``--mamba-ssm-cache-dtype`` wins over config and weights: 32 x 128 x 128 states of 2 bytes
    and 3 x 8192 inputs of 2 are 268 tokens of 4,096 bytes; of 4 bytes 1,048 of 2,048.
    """
    assert f"blocks x {tokens} tokens x" in get_formula("kv_cache", name, state_dtype=dtype)


def test_sglang_takes_slots_of_the_named_format() -> None:
    """Of 24 layers 32 x 128 x 128 states are half as large in bf16, 3 x 8192 inputs are not."""
    formulas = [
        get_formula("recurrent_state", "qwen3.5-4b", engine=Engine.SGLANG, state_dtype=dtype)
        for dtype in (DType.FP32, DType.BF16)
    ]

    sizes = [24 * (32 * 128 * 128 * width + 3 * 8192 * 2) for width in (4, 2)]
    matches = [f"x {size:,} B" in formula for size, formula in zip(sizes, formulas, strict=True)]
    assert matches == [True, True]
