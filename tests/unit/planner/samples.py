"""Seeded random configurations of catalogue models: what a search could come to ask."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from service.catalog.models import load_architecture, resolve_model
from service.estimator.model.architecture import Architecture
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Loss
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import (
    Attention,
    Cache,
    Checkpointing,
    Engine,
    Framework,
    Lora,
    Method,
    Offload,
    OffloadTarget,
    Quantization,
    ServeWorkload,
    TrainWorkload,
    Workload,
)

Configuration = tuple[Architecture, Workload, Layout]
MODELS = (
    "gpt2",
    "llama-3.2-1b",
    "llama-3-8b",
    "llama-2-70b",
    "mixtral-8x7b",
    "qwen3-30b-a3b",
    "gemma-2-2b",
    "phi-3-medium-4k",
    "deepseek-v2-lite",
    "bert-base",
    "t5-small",
    "whisper-tiny",
    "olmo-2-13b",
    "gpt-oss-20b-bf16",
    "bloom-7b1",
    "mamba-130m",
    "starcoder2-3b",
)
DEGREES = (1, 1, 1, 2, 3, 4, 8)
WAYS = {
    Framework.TRANSFORMERS: (Sharding.DDP, Sharding.DEEPSPEED, Sharding.FSDP1, Sharding.FSDP2),
    Framework.MEGATRON: (Sharding.MEGATRON,),
    Framework.TORCHTITAN: (Sharding.FSDP2,),
    Framework.LITGPT: (Sharding.DDP,),
}
STAGES = {Sharding.DDP: (0,), Sharding.FSDP1: (3,), Sharding.FSDP2: (3,), Sharding.MEGATRON: (0, 1)}


@cache
def model(name: str) -> Architecture:
    """Return a catalogue model, read once."""
    return load_architecture(resolve_model(name))


def trainings(seed: int, count: int) -> Iterator[Configuration]:
    """Yield so many training configurations whose layout alone makes sense."""
    random = Random(seed)  # noqa: S311 - a seeded sample
    return _configurations(random, count, _training)


def servings(seed: int, count: int) -> Iterator[Configuration]:
    """Yield so many serving configurations whose layout alone makes sense."""
    random = Random(seed)  # noqa: S311 - a seeded sample
    return _configurations(random, count, _serving)


def _configurations(random: Random, count: int, workload: Any) -> Iterator[Configuration]:  # noqa: ANN401 - one of the two below
    made = 0
    while made < count:
        try:
            asked = workload(random)
            layout = _layout(random, asked)
        except InvalidInputError:
            continue
        made += 1
        yield model(random.choice(MODELS)), asked, layout


def _training(random: Random) -> TrainWorkload:
    method = random.choice((Method.FULL, Method.FULL, Method.FULL, Method.LORA, Method.QLORA))
    checkpointing = random.choice(tuple(Checkpointing))
    every = random.choice((None, 2)) if checkpointing is Checkpointing.SELECTIVE else None
    return TrainWorkload(
        sequence_length=random.choice((512, 1000, 2048)),
        gradient_accumulation_steps=random.choice((1, 2, 4, 8)),
        framework=random.choice(tuple(Framework)),
        method=method,
        lora=None if method is Method.FULL else Lora(),
        precision=random.choice(
            (*POLICIES.values(), replace(POLICIES["amp_bf16"], autocast=False, name="custom"))
        ),
        optimizer=random.choice(("adamw", "adamw", "adamw", "adamw_8bit", "muon", "sgd_momentum")),
        activation_checkpointing=checkpointing,
        selective_every=every,
        attention=random.choice((Attention.SDPA, Attention.SDPA, Attention.FLASH, Attention.EAGER)),
        loss=random.choice(
            (Loss.FULL_LOGITS, Loss.FULL_LOGITS, Loss.FULL_LOGITS, Loss.FUSED_CROSS_ENTROPY)
        ),
        offload=_offload(random),
    )


def _offload(random: Random) -> Offload:
    if random.random() < 0.7:
        return Offload()
    none, cpu, nvme = OffloadTarget.NONE, OffloadTarget.CPU, OffloadTarget.NVME
    parameters = random.choice((none, none, cpu, nvme))
    return Offload(
        optimizer=random.choice((none, cpu, nvme, parameters)),
        parameters=parameters,
        activations=random.choice((none, none, cpu)),
    )


def _serving(random: Random) -> ServeWorkload:
    weights = random.choice((DType.BF16, DType.BF16, DType.FP16))
    return ServeWorkload(
        num_sequences=random.choice((1, 8)),
        prompt_tokens=random.choice((128, 512, 2000)),
        output_tokens=random.choice((0, 24)),
        max_model_len=random.choice((None, None, None, 1024, 4096)),
        engine=random.choice(tuple(Engine)),
        weight_dtype=weights,
        kv_cache_dtype=random.choice((weights, weights, DType.FP8)),
        quantization=random.choice((Quantization.NONE, Quantization.NONE, *Quantization)),
        cache=random.choice((Cache.DYNAMIC, Cache.DYNAMIC, *Cache)),
    )


def _layout(random: Random, workload: Workload) -> Layout:
    is_alone = isinstance(workload, TrainWorkload) and workload.framework is Framework.LITGPT
    if is_alone and random.random() < 0.8:
        return Layout()
    sharding, tensor = _sharding(random, workload), random.choice(DEGREES)
    rare = [random.choice(DEGREES) if random.random() < 0.2 else 1 for _ in range(3)]
    return Layout(
        data_parallel=random.choice(DEGREES),
        tensor_parallel=tensor,
        pipeline_parallel=rare[0],
        context_parallel=rare[1],
        expert_parallel=rare[2],
        virtual_pipeline_stages=2 if random.random() < 0.1 else 1,
        sequence_parallel=tensor > 1 and random.random() < 0.4,
        zero_stage=random.choice(STAGES.get(sharding, (0, 1, 2, 3))),
        sharding=sharding,
    )


def _sharding(random: Random, workload: Workload) -> Sharding:
    if isinstance(workload, ServeWorkload):
        return Sharding.DDP
    return random.choice(WAYS[workload.framework] if random.random() < 0.9 else tuple(Sharding))
