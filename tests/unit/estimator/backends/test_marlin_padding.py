"""Experts in mxfp4 on vLLM against its start-up logs."""

import pytest

from service.estimator.backends.paged_pool.marlin_padding import pad_to_tiles
from service.estimator.model.quantization.weights import WeightPlacement
from service.estimator.model.weights.tensors import Weight
from service.estimator.values.layout import Layout
from service.estimator.values.units import GIB
from service.estimator.values.workload import Engine
from tests.unit.estimator.backends.test_corners import serve, weights

_ENGINES = (Engine.VLLM, Engine.SGLANG)


@pytest.mark.parametrize(("model", "gib"), [("gpt-oss-120b", 65.9651), ("gpt-oss-20b", 13.72)])
def test_marlin_holds_whole_tiles(model: str, gib: float) -> None:
    """gpt-oss-120b by 0.10.1 (vllm-project/vllm, number 23278), gpt-oss-20b by 0.19.0 on an A100:
    2880 become 2944 and 3072.
    """
    assert weights(serve(model)) / GIB == pytest.approx(gib, rel=0.0005)


def test_each_rank_pads_its_own_slice() -> None:
    """Four ranks hold 720 inner features each, as 768; SGLang has Triton's kernels. Both have whole
    segments.
    """
    padded, plain = (
        weights(serve("gpt-oss-120b", engine, layout=Layout(tensor_parallel=4)))
        for engine in _ENGINES
    )
    experts = 36 * 128 * 3 * (768 * 3072 - 720 * 2880) * 17 / 32

    assert padded - plain == pytest.approx(experts, rel=0.05)


@pytest.mark.parametrize(
    ("packed", "name"), [(0, "mlp.experts.gate_up_proj"), (2, "mlp.experts.gate_up_proj_bias")]
)
def test_nothing_else_is_padded(packed: int, name: str) -> None:
    """Biases and experts in 16 bits keep their sides."""
    shape = (4, 100) if name.endswith("bias") else (4, 100, 50)
    placed = WeightPlacement(Weight(name, "mlp_experts", shape), packed, 2 - packed)

    assert pad_to_tiles(placed) is placed
