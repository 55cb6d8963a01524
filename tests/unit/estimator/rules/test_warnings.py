"""A word that changes nothing is told of, and so is a version or a length beyond what is known."""

from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.values.adapters.lora_kernels import LoraKernel
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.generation import Client
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.result import Detail, Estimate
from service.estimator.values.workload import (
    Allocator,
    Attention,
    Cache,
    Engine,
    Framework,
    Lora,
    Method,
    Offload,
    OffloadTarget,
    Quantization,
    Workload,
)
from tests.builders import a_device, a_gpt2, a_model, a_serving, a_sharded_layout, a_training

_LLAMA = a_model(max_position_embeddings=256)
_KERNELS: dict[str, Any] = {
    "precision": "bf16",
    "method": Method.LORA,
    "lora": Lora(kernels=tuple(LoraKernel)),
}
_PARAMETERS = Offload(parameters=OffloadTarget.CPU, optimizer=OffloadTarget.CPU)


def _ask(
    workload: Workload, layout: Layout | None = None, model: Architecture = _LLAMA
) -> Estimate:
    return estimate(model, workload, layout=layout or Layout(), device=a_device())


def _of_megatron(**changes: Any) -> Workload:  # noqa: ANN401 - each field has its own type
    return a_training(framework=Framework.MEGATRON, precision="megatron_bf16", **changes)


@pytest.mark.parametrize(
    ("workload", "layout", "said"),
    [
        (a_training(), Layout(reshard_after_forward=False), "reshard_after_forward"),
        (a_training(), Layout(host_memory_bytes=2**40), "host_memory_bytes"),
        (_of_megatron(), Layout(expert_tensor_parallel=1), "expert_tensor_parallel"),
        (_of_megatron(), Layout(), "FusedAdam"),
        (a_training(sequence_length=512), Layout(), "max_position_embeddings 256"),
        (a_training(optimizer="adamw_8bit"), Layout(), "embeddings have 32-bit states"),
        (a_training(framework_version="99.0"), Layout(), "99.0 was not read"),
        (a_training(framework_version="4.40.0"), Layout(), "of older ones"),
        (a_training(**_KERNELS), Layout(), "axolotl 0.19's functions are counted"),
        (a_training(**_KERNELS), a_sharded_layout(4), "are counted as PEFT's modules"),
        (a_serving(), Layout(reshard_after_forward=False), "reshard_after_forward"),
        (a_serving(), Layout(host_memory_bytes=2**40), "host_memory_bytes"),
        (a_serving(prompt_tokens=512), Layout(), "max_position_embeddings 256"),
        (a_serving(engine_version="9.0.0"), Layout(), "9.0.0 was not read"),
        (a_serving(client=Client.GENERATE, cache=Cache.STATIC), Layout(), "compiles its steps"),
        (a_serving(engine=Engine.LMDEPLOY), Layout(), "CUDA graphs, whose pool has no term"),
        (
            a_training(precision="deepspeed_bf16", offload=_PARAMETERS),
            Layout(zero_stage=3, sharding=Sharding.DEEPSPEED),
            "stage3_max_reuse_distance",
        ),
        (
            a_serving(engine=Engine.VLLM, engine_version="9.0.0"),
            Layout(),
            "answer is that of 0.33.0",
        ),
        (a_serving(engine=Engine.SGLANG, engine_version="9.0.0"), Layout(), "9.0.0 was not read"),
        (
            a_serving(engine=Engine.VLLM, allocator=Allocator.EXPANDABLE_SEGMENTS),
            Layout(),
            "allocator",
        ),
        (a_serving(engine=Engine.VLLM, attention=Attention.EAGER), Layout(), "attention eager"),
        (a_serving(engine=Engine.TENSORRT_LLM, enforce_eager=True), Layout(), "enforce_eager"),
        (a_serving(engine=Engine.LLAMA_CPP, enforce_eager=True), Layout(), "enforce_eager"),
    ],
)
def test_a_word_without_effect_is_told_of(workload: Workload, layout: Layout, said: str) -> None:
    """The answer names the word, once, and the same question without it says nothing of it."""
    found = [warning for warning in _ask(workload, layout).warnings if said in warning]

    assert len(found) == 1


def test_words_with_an_effect_are_not_told_of() -> None:
    """Sharded parameters that stay gathered, states on the host, and the releases that were
    read.
    """
    host = a_training(offload=Offload(optimizer=OffloadTarget.CPU))
    kept = Layout(
        data_parallel=2, zero_stage=3, sharding=Sharding.FSDP2, reshard_after_forward=False
    )
    silent = [
        _ask(a_training(framework_version="5.23")),
        _ask(a_training(), kept),
        _ask(
            host,
            Layout(
                data_parallel=2, zero_stage=1, sharding=Sharding.DEEPSPEED, host_memory_bytes=2**40
            ),
        ),
        _ask(a_serving(engine=Engine.VLLM, engine_version="0.19.0")),
    ]

    assert not any(
        "effect" in warning or "read" in warning for answer in silent for warning in answer.warnings
    )


def test_numbers_are_told_without_remarks() -> None:
    """A search of thousands of layouts pays for no sentence."""
    asked = a_training(sequence_length=512)
    numbers = estimate(
        _LLAMA, asked, layout=a_sharded_layout(2), device=a_device(), detail=Detail.NUMBERS
    )

    assert numbers.warnings == ()


def test_learned_positions_end_where_they_end() -> None:
    """The refusal names the word that the question has for its length."""
    model = a_gpt2(max_position_embeddings=128)
    with pytest.raises(InvalidInputError) as served:
        _ask(a_serving(prompt_tokens=512), model=model)
    with pytest.raises(InvalidInputError) as longest:
        _ask(a_serving(engine=Engine.VLLM, max_model_len=512), model=model)

    assert served.value.field == "workload.prompt_tokens"
    assert longest.value.field == "workload.max_model_len"


def test_mxfp4_of_a_dense_model_is_refused_by_llama_cpp() -> None:
    """Its other tensors are of eight bits: the answer would be that of q8_0 under another name."""
    with pytest.raises(NotModelledError, match="no experts") as refusal:
        _ask(a_serving(engine=Engine.LLAMA_CPP, quantization=Quantization.MXFP4))

    assert refusal.value.field == "workload.quantization"


def test_a_refusal_is_a_sentence_whatever_is_explained_in_it() -> None:
    """What has no term stands between its verdict and what has one, with commas and colons of its
    own.
    """
    refusal = NotModelledError(
        "half a layer, which is none: halves are not read",
        field="model",
        modelled=["layers", "models"],
    )

    assert refusal.message == (
        "Not modelled yet, and nothing is guessed: half a layer, which is none: halves are not "
        "read; modelled: layers, models."
    )
