"""Questions that break few rules each: legal ones of small models, changed in a word or two."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, cast

from service.catalog.recorded_models import load_recorded_architecture
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.heads.config import put_head_in_config
from service.estimator.rules.grammar.facts import Case, ModelFacts, collect_facts
from service.estimator.values.batches import SequencePacking
from service.estimator.values.dtypes import CacheType, DType
from service.estimator.values.generation import Client
from service.estimator.values.heads import Head
from service.estimator.values.layout import ContextMethod, Layout, Sharding
from service.estimator.values.losses import Loss, Reference, Trainer
from service.estimator.values.pipeline import PipelineSchedule
from service.estimator.values.precision import POLICIES
from service.estimator.values.speculative import Speculative
from service.estimator.values.workload import (
    Attention,
    Cache,
    Checkpointing,
    Engine,
    Framework,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from tests.recordings import change_layers, make_recorded
from tests.tiny_models import tiny_config
from tests.unit.estimator.rules.drafts import describe_gguf_draft
from tests.unit.estimator.rules.varying import Words, change, vary_base
from tests.unit.estimator.rules.words import (
    BF16,
    GRPO,
    GRPO_ALONE,
    KERNELS,
    LAID_OUT,
    LITGPT,
    LOCAL,
    MIXED,
    ODD,
    OWN,
    PREDICTED,
    QUANTISED,
    RECORDED,
    SERVED,
    TRAINED,
)

FULLY: Words = {"sharding": Sharding.FSDP2, "zero_stage": 3}
_FLAT: Words = {"sharding": Sharding.FSDP1, "zero_stage": 3}
_DEEPSPEED: Words = {"sharding": Sharding.DEEPSPEED}
_MEGATRON: Words = {"sharding": Sharding.MEGATRON}
_ULYSSES: Words = _DEEPSPEED | {"context_parallel_method": ContextMethod.ULYSSES, "zero_stage": 3}
_ADAPTERS = (
    Lora(),
    Lora(dtype=DType.FP8),
    Lora(dtype=DType.BF16),
    *(Lora(variant=variant) for variant in ("dora", "ia3", "vera")),
    Lora(dropout=0.1),
    Lora(variant="dora", dropout=0.1, dtype=DType.BF16),
    Lora(rank=7, variant="miss", targets=("q_proj",)),
    *(
        Lora(targets=targets)
        for targets in (("0",), ("out_proj",), ("router",), ("w1",), ("nothing",))
    ),
)


_SELECTIVE: Words = {"activation_checkpointing": Checkpointing.SELECTIVE}
_ADAPTED = tuple({"method": Method.LORA, "lora": lora} for lora in _ADAPTERS)
_QLORA: Words = {"method": Method.QLORA, "lora": Lora()}
_COMMON: tuple[tuple[Words, Words], ...] = (
    ({}, {}),
    ({"num_images": 1, "image_tokens": 16}, {}),
    (_SELECTIVE | {"selective_every": 2}, {}),
    ({"activation_checkpointing": Checkpointing.FULL, "reentrant_checkpointing": True}, {}),
    ({"loss": Loss.FUSED_LINEAR}, {"data_parallel": 4} | FULLY),
)
_BASES_OF_OTHERS = len(_COMMON)
"""What models of other kinds are varied from."""
_ADAPTED_ALONE: tuple[Words, ...] = (
    *_ADAPTED,
    _QLORA,
    *(_QLORA | {"quantization_bits": bits} for bits in (8, 2)),
    _QLORA | {"quantization_bits": 8, "double_quantization": False},
    _ADAPTED[0] | {"quantization_bits": 8},
    _ADAPTED[0] | {"fp32_norms_and_head": True},
    {"method": Method.PEFT, "peft": "adapter"},
    *KERNELS,
)
"""What is asked of every model, and not varied."""
_BASES: Mapping[Framework, tuple[tuple[Words, Words], ...]] = {
    Framework.TRANSFORMERS: (
        *_COMMON,
        (_ADAPTED[0], {}),
        *((KERNELS[0], laid_out) for laid_out in ({}, {"data_parallel": 4} | FULLY)),
        (_QLORA, {}),
        (_SELECTIVE, {}),
        (_SELECTIVE | _ADAPTED[0] | {"selective_every": 2}, {}),
        ({"activation_checkpointing": Checkpointing.FULL}, {}),
        ({}, {"data_parallel": 4} | FULLY),
        (
            {
                "activation_checkpointing": Checkpointing.FULL,
                "reentrant_checkpointing": True,
                "frozen": ("embedding",),
            },
            {},
        ),
        ({"optimizer_in_backward": True}, {}),
        ({"frozen": ("embedding",)}, {}),
        ({"loss": Loss.CHUNKED}, {}),
        ({"trainer": Trainer.REWARD}, {}),
        ({"packing": SequencePacking.PADDING_FREE, "attention": Attention.FLASH}, {}),
        (
            {
                "trainer": Trainer.DPO,
                "reference": Reference.MODEL,
                "loss": Loss.CHUNKED_NLL,
            },
            {},
        ),
        (
            {
                "trainer": Trainer.KTO,
                "reference": Reference.PRECOMPUTED,
                "loss": Loss.CHUNKED_NLL,
            },
            {},
        ),
        ({"trainer": Trainer.SIMPO, "loss": Loss.SELECTIVE}, {"data_parallel": 4} | FULLY),
        (GRPO, {}),
        (GRPO | _QLORA | {"loss": Loss.CHUNKED_NLL}, {}),
        (GRPO_ALONE, {}),
        (GRPO_ALONE, {"data_parallel": 4} | FULLY),
        ({"framework_version": "4.48"}, {}),
        ({}, {"data_parallel": 4}),
        ({}, {"data_parallel": 4} | FULLY),
        ({}, {"data_parallel": 4, "tensor_parallel": 2} | FULLY),
        ({}, {"tensor_parallel": 2}),
        (_ADAPTED[0], {"tensor_parallel": 2}),
        ({}, {"data_parallel": 4} | _FLAT),
        ({}, {"data_parallel": 4, "zero_stage": 2} | _DEEPSPEED),
        ({}, {"data_parallel": 4, "zero_stage": 3} | _DEEPSPEED),
        ({"optimizer": "onebit_adam", "precision": MIXED}, {"data_parallel": 4} | _DEEPSPEED),
        (_ADAPTED[0] | {"precision": MIXED}, {"data_parallel": 4} | _DEEPSPEED),
        ({"optimizer_in_backward": True}, {"data_parallel": 4} | _FLAT),
        (_ADAPTED[0], {"data_parallel": 4, "zero_stage": 3} | _DEEPSPEED),
        ({"frozen": ("embedding",)}, {"data_parallel": 4} | FULLY),
        ({"compile": True}, {}),
        ({}, {"context_parallel": 2} | FULLY),
        ({}, {"context_parallel": 2} | _ULYSSES),
        ({"attention": Attention.FLASH}, {"context_parallel": 2} | _ULYSSES),
    ),
    Framework.TORCHTITAN: (
        *_COMMON,
        ({}, {"data_parallel": 4} | FULLY),
        ({"compile": True} | _SELECTIVE, {"data_parallel": 2, "tensor_parallel": 2} | FULLY),
        ({}, {"data_parallel": 2, "tensor_parallel": 2} | FULLY),
        ({}, {"context_parallel": 2} | FULLY),
        ({}, {"data_parallel": 2, "pipeline_parallel": 3} | FULLY),
        ({"compile": True} | _SELECTIVE, {"data_parallel": 2, "pipeline_parallel": 2} | FULLY),
        (
            {},
            {
                "data_parallel": 2,
                "pipeline_parallel": 3,
                "virtual_pipeline_stages": 2,
                "pipeline_schedule": PipelineSchedule.ZBV,
            }
            | FULLY,
        ),
    ),
    Framework.LITGPT: (*_COMMON, (_QLORA, {}), *((words, {}) for words in LITGPT)),
    Framework.MEGATRON: (
        ({"precision": MIXED}, _MEGATRON),
        *_COMMON,
        ({"precision": MIXED}, {"tensor_parallel": 2} | _MEGATRON),
        ({"precision": MIXED}, {"tensor_parallel": 2, "sequence_parallel": True} | _MEGATRON),
        ({"precision": MIXED}, {"pipeline_parallel": 3} | _MEGATRON),
        (
            {"precision": MIXED, "gradient_accumulation_steps": 3},
            {"pipeline_parallel": 3, "virtual_pipeline_stages": 2} | _MEGATRON,
        ),
        ({"precision": MIXED}, {"pipeline_parallel": 3, "context_parallel": 2} | _MEGATRON),
        ({"precision": MIXED}, {"context_parallel": 2} | _MEGATRON),
        *(({"precision": MIXED}, {"data_parallel": ranks} | _MEGATRON) for ranks in (4, 3)),
        ({"precision": MIXED, "deterministic": True}, _MEGATRON),
        (LOCAL, {"tensor_parallel": 2, "sequence_parallel": True} | _MEGATRON),
        (PREDICTED, {"pipeline_parallel": 3} | _MEGATRON),
    ),
}
_FP32: Words = {"weight_dtype": DType.FP32, "kv_cache_dtype": DType.FP32}
_SERVED_BASES: tuple[tuple[Words, Words], ...] = (
    ({}, {}),
    ({"num_images": 1, "image_tokens": 16}, {}),
    ({"cache_type": CacheType.Q8_0}, {}),
    ({"weight_dtype": DType.FP16, "kv_cache_dtype": DType.FP16}, {}),
    ({}, {"tensor_parallel": 2}),
    ({}, {"pipeline_parallel": 3}),
    ({}, _DEEPSPEED),
    *(({}, {"data_parallel": ranks}) for ranks in (2, 4, 3)),
    ({}, {"context_parallel": 2}),
    ({}, {"tensor_parallel": 2, "data_parallel": 2, "expert_parallel": 2}),
    ({"cache": Cache.STATIC}, {}),
    ({"speculative": Speculative(num_tokens=2)}, {}),
    ({"speculative": Speculative(num_tokens=2, spec=describe_gguf_draft())}, {}),
    *((word, {}) for word in ({"client": Client.LOOP}, {"max_loras": 2}, {"unquantised": True})),
)
_SIGLIP, _PLBART = "siglip-vision-model-default", "plbart-default"
_ODD_LLAMAS = tuple(f"llama+{odd}" for odd in ODD)
_TRAINED_ALIKE = (
    *("llama", "mixtral", "gpt2", "gemma2", "mamba", "phimoe", "zamba2", "bert", "t5", "whisper"),
    *("clip", "vit", "llava", "qwen2_vl", "llama-gptq", "llama-int8", "llama-part", "llama-hqq"),
    *("mixtral-fp8", "qwen2_5_vl", "llama-relu", "llama-biased", "mistral-sliding", "llama-nf4"),
    *("cohere", "gpt_neo", "mistral3", "qwen3", "deepseek_v3", *_ODD_LLAMAS, _SIGLIP, _PLBART),
    *("llama-single", "llama/token_classification", "llama/reward", "bert/reward"),
)
_SERVED_ALIKE = (
    *("llama", "mixtral", "gpt2", "gemma2", "mamba", "zamba2", "bert", "t5", "whisper", "codegen"),
    *("clip", "vit", "llava", "qwen2_vl", "llama-gptq", "llama-fp8", "llama-nf4", "llama-hqq"),
    *("zamba2-int8", "mistral3", "mpt", "deepseek_v32", *_ODD_LLAMAS, "llama/reward"),
    "bert/none",
    *("helium_recorded", "helium_planned", _SIGLIP),
)
_SINGLE: Mapping[type, tuple[tuple[str, Words, Words], ...]] = {
    TrainWorkload: (
        ("llama", {"attention": Attention.FLASH, "precision": POLICIES["fp32"]}, {}),
        ("bert/reward", _ADAPTED[0], {"data_parallel": 4} | FULLY),
    ),
    ServeWorkload: (("llama", {"attention": Attention.FLASH, **_FP32}, {}),),
}
"""Questions that are not varied."""


@cache
def collect_tiny_facts(name: str) -> ModelFacts:
    """Return the facts of a small model: quantised, of other sizes (+), with a head (/)."""
    family, _, odd = name.partition("+")
    return replace(collect_facts(read_tiny(family)), **ODD.get(odd, {}))


@cache
def read_tiny(name: str) -> Architecture:
    """Return a small model of a family, its weights quantised or with another head."""
    if name in {_SIGLIP, _PLBART}:
        recorded: Any = load_recorded_architecture(name)
        return cast("Architecture", replace(recorded, divides_prologue=name == _SIGLIP))
    if name in RECORDED:
        return change_layers(make_recorded(), **RECORDED[name])
    base, _, head = name.partition("/")
    family, _, packing = base.partition("-")
    own = dict(OWN.get(packing, {}))
    own |= {"quantization_config": dict(QUANTISED[packing])} if packing in QUANTISED else {}
    config = dict(tiny_config(family)) | own
    return architecture_from_config(
        put_head_in_config(config, Head(head), None) if head else config
    )


def list_trainings(framework: Framework) -> Iterator[Case]:
    """Yield questions about steps of a framework, of every kind of model."""
    plain = TrainWorkload(sequence_length=64, framework=framework, precision=BF16)
    return _vary(plain, TRAINED, _TRAINED_ALIKE, _BASES[framework])


def list_servings(engine: Engine) -> Iterator[Case]:
    """Yield questions about replicas of an engine, of every kind of model."""
    plain = ServeWorkload(num_sequences=2, prompt_tokens=32, engine=engine)
    return _vary(plain, SERVED, _SERVED_ALIKE, _SERVED_BASES)


def _vary(
    plain: Workload,
    words: Mapping[str, Sequence[object]],
    models: Sequence[str],
    bases: Sequence[tuple[Words, Words]],
) -> Iterator[Case]:
    for name, asked, laid_out in _SINGLE[type(plain)]:
        workload, layout = change(plain, asked), change(Layout(), laid_out)
        yield Case(collect_tiny_facts(name), workload, layout)
    adapted = [
        change(plain, alone)
        for alone in (_ADAPTED_ALONE if isinstance(plain, TrainWorkload) else ())
    ]
    # What is asked is the same of every model.
    varied = [list(vary_base(plain, *base, words, LAID_OUT)) for base in bases]
    for name in models:
        facts = collect_tiny_facts(name)
        yield from (Case(facts, workload, Layout()) for workload in adapted)
        is_plain = name.partition("+")[0].partition("/")[0] in {"llama", "mixtral"}
        for configs in varied if is_plain else varied[:_BASES_OF_OTHERS]:
            yield from (Case(facts, workload, layout) for workload, layout in configs)
