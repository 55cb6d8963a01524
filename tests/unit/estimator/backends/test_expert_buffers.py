"""What experts hold on vLLM against its start-up logs (vLLM 0.19.0 on H100 80GB,
jgchn/llm-d-planner).
"""

from typing import Any

import pytest

from service.estimator.values.layout import Layout
from service.estimator.values.units import GIB
from tests.unit.estimator.backends.test_corners import serve
from tests.unit.estimator.backends.test_vllm import part

LOGS: dict[str, Any] = {
    "max_model_len": 8192,
    "gpu_memory_fraction": 0.95,
    "engine_version": "0.19.0",
}


@pytest.mark.parametrize(
    ("model", "tensor_parallel", "activations"),
    [
        ("mixtral-8x7b", 2, 1.21),
        ("qwen3-30b-a3b", 1, 2.68),
        ("deepseek-v2-lite", 1, 1.93),
        ("gpt-oss-20b", 1, 2.87),
    ],
)
def test_buffers_of_experts_stay_while_rows_are_sampled(
    model: str, tensor_parallel: int, activations: float
) -> None:
    """Two buffers that all layers share lie beside the logits; experts in mxfp4 have none."""
    answer = serve(model, layout=Layout(tensor_parallel=tensor_parallel), **LOGS)

    assert part(answer, "activations") == pytest.approx(activations, abs=0.01)


def test_older_releases_free_what_experts_held() -> None:
    """Until 0.14 the logits decide alone: they are wider than eight experts."""
    old, new = (
        serve("qwen3-30b-a3b", **(LOGS | {"engine_version": version}))
        for version in ("0.14.0", "0.15.0")
    )

    assert part(new, "activations") - part(old, "activations") == pytest.approx(
        2 * 8192 * 8 * 2 * 2048 / GIB
    )
