"""Slots of LoRA adapters that vLLM allocates at its start, of every layer on a rank."""

from typing import Any

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Engine, ServeWorkload
from tests.builders import a_device

LAYERS, TABLE = 2_621_440, 128_256 + 4_096
"""Inputs and outputs of the linear layers of Llama-3.1-8B (PEFT's adapters of rank 16 on all of
them have 41,943,040 parameters), and of its table or its head.
"""


def serve(name: str = "llama-3.1-8b", layout: Layout | None = None, **words: Any) -> Estimate:  # noqa: ANN401 - each word has its own type
    """Ask for a small load on vLLM."""
    asked: dict[str, Any] = {"engine": Engine.VLLM, "max_model_len": 4096} | words
    workload = ServeWorkload(num_sequences=1, prompt_tokens=64, **asked)
    model = load_architecture(resolve_model(name))
    return estimate(model, workload, layout=layout or Layout(), device=a_device())


def size(answer: Estimate, name: str) -> int:
    """Return the bytes of a component, 0 where there is none."""
    return sum(component.bytes for component in answer.components if component.name == name)


@pytest.mark.parametrize(
    ("words", "layout", "expected"),
    [
        ({}, Layout(), 0),
        ({"max_loras": 1}, Layout(), 16 * (LAYERS + 2 * TABLE) * 2),
        (
            {"max_loras": 4, "max_lora_rank": 64},
            Layout(),
            4 * 64 * (LAYERS + 2 * TABLE) * 2,
        ),
        (
            {"max_loras": 1, "weight_dtype": DType.FP32, "kv_cache_dtype": DType.FP32},
            Layout(),
            16 * (LAYERS + 2 * TABLE) * 4,
        ),
        # Inputs of q, k, v, gate and up and outputs of o and down stay whole on two ranks.
        (
            {"max_loras": 1},
            Layout(tensor_parallel=2),
            16 * ((LAYERS + 32 * 7 * 4096) // 2 + 2 * TABLE) * 2,
        ),
        ({"max_loras": 1}, Layout(pipeline_parallel=2), 16 * (LAYERS // 2 + TABLE) * 2),
    ],
)
def test_each_layer_of_a_rank_has_its_slots(
    words: dict[str, Any], layout: Layout, expected: int
) -> None:
    """Table and head have them too, whole on every rank that has either."""
    assert size(serve(layout=layout, **words), "adapters") == expected


def test_families_without_embedding_modules_have_slots_of_layers_alone() -> None:
    """Mistral has the layers of Llama, and vLLM no adapters of its table."""
    answer = serve("mistral-7b-v0.3", max_loras=1)

    assert size(answer, "adapters") == 16 * LAYERS * 2


def test_slots_leave_less_to_the_pool() -> None:
    """They are in the engine's budget, and graphs are captured with adapters and without."""
    plain, slots = serve(), serve(max_loras=8, max_lora_rank=64)
    lost = size(plain, "kv_cache") - size(slots, "kv_cache")
    added = sum(size(slots, name) - size(plain, name) for name in ("adapters", "cuda_graphs"))

    assert size(slots, "cuda_graphs") == 2 * size(plain, "cuda_graphs")
    assert lost == pytest.approx(added, abs=2**22)


def test_what_no_slots_are_of_is_refused() -> None:
    """Other engines, models of experts and ranks that vLLM has no slots of."""
    with pytest.raises(NotModelledError, match="adapter slots of sglang"):
        serve(engine=Engine.SGLANG, max_loras=1)
    with pytest.raises(NotModelledError, match="adapter slots of mixtral"):
        serve("mixtral-8x7b", max_loras=1)
    with pytest.raises(InvalidInputError, match="vLLM has slots of rank 1, 8, 16"):
        serve(max_loras=1, max_lora_rank=12)
    with pytest.raises(InvalidInputError, match="say max_loras"):
        serve(max_lora_rank=16)
    with pytest.raises(InvalidInputError, match="max_loras is a word of engine vllm"):
        serve(engine=Engine.TRANSFORMERS, max_model_len=None, max_loras=1)
