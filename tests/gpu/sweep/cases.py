"""What a sweep runs, the most informative first: a budget that ends early has one of everything."""

from collections.abc import Iterator
from itertools import chain, product
from typing import Any

from msgspec import structs

from service.catalog.models import load_architecture, resolve_model
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES, Precision
from service.estimator.values.workload import (
    Allocator,
    Attention,
    Cache,
    Checkpointing,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.jobs.contract import task_of
from service.probing.slices import slicings
from tests.gpu.sweep.case import Case

_NUM_SLICED_EARLY = 9
"""Models whose slices are run before workloads are varied."""
_SMALL, _LARGE = "llama-3.2-1b", "llama-3-8b"
_CAST_WHEN_GATHERED = Precision(
    name="fp32, gathered in bf16",
    param_dtype=DType.FP32,
    compute_dtype=DType.BF16,
    grad_dtype=DType.FP32,
    optimizer_dtype=DType.FP32,
)
"""What FSDP2's ``MixedPrecisionPolicy(param_dtype=torch.bfloat16)`` makes of fp32 weights."""


def all_cases() -> tuple[Case, ...]:
    """Return every case, by importance."""
    wholes = [*_models(), *_methods()]
    slices = [_slices(whole) for whole in wholes]
    varied = (*_optimizers(), *_attention(), *_sizes(), *_policies(), *_serving(), *_limits())
    early, late = slices[:_NUM_SLICED_EARLY], slices[_NUM_SLICED_EARLY:]
    return (*_smoke(), *wholes, *_ranks(), *chain(*early), *varied, *chain(*late))


def train(model: str, tokens: int, batch: int = 1, *, policy: str = "bf16", **words: Any) -> tuple[str, Workload]:  # noqa: ANN401 - the workload's own fields
    """Return a model and its training."""
    workload = TrainWorkload(sequence_length=tokens, micro_batch_size=batch, precision=POLICIES[policy], **words)
    return model, workload


def lora(model: str, tokens: int, batch: int = 1, **words: Any) -> tuple[str, Workload]:  # noqa: ANN401 - the workload's own fields
    """Return a model and the training of its adapters."""
    return train(model, tokens, batch, method=Method.LORA, lora=Lora(rank=16), **words)


def serve(model: str, num: int, prompt: int, output: int, **words: Any) -> tuple[str, Workload]:  # noqa: ANN401 - the workload's own fields
    """Return a model and its serving."""
    return model, ServeWorkload(num_sequences=num, prompt_tokens=prompt, output_tokens=output, **words)


def case(group: str, name: str, asked: tuple[str, Workload], **words: Any) -> Case:  # noqa: ANN401 - the case's own fields
    """Return a case of a group."""
    model, workload = asked
    return Case(name=f"{group}/{model}/{name}", group=group, model=model, task=task_of(workload), **words)


def _smoke() -> Iterator[Case]:
    """Yield what any machine runs in seconds: it shows that everything works before minutes are spent."""
    yield case("smoke", "train", train("gpt2", 16, policy="fp32"), layers=(0, 1), small=True)
    yield case("smoke", "serve", serve("gpt2", 2, 12, 4), layers=(0, 1), small=True)


def _models() -> Iterator[Case]:
    """Yield one training and one serving of each family."""
    yield case("models", "amp_bf16 1x1024", train(_SMALL, 1024, policy="amp_bf16"))
    yield case("models", "serve 8x(1024+64)", serve(_SMALL, 8, 1024, 64))
    yield case("models", "bf16 checkpointed fused 1x2048", train(_LARGE, 2048, **_frugal()))
    yield case("models", "serve 8x(2048+128)", serve(_LARGE, 8, 2048, 128))
    for model in ("gpt2", "qwen3-0.6b", "gemma-3-1b", "qwen3-1.7b", "pythia-1b", "opt-1.3b", "phi-2"):
        yield case("models", "bf16 2x1024", train(model, 1024, 2))
    for model in ("qwen3-1.7b", "gemma-3-1b", "mistral-7b-v0.1", "olmoe-1b-7b"):
        yield case("models", "serve 4x(1024+64)", serve(model, 4, 1024, 64))
    yield case("models", "bf16 checkpointed fused 1x1024", train("olmoe-1b-7b", 1024, **_frugal()))


def _frugal() -> dict[str, Any]:
    return {"optimizer": "adamw_fused", "activation_checkpointing": Checkpointing.FULL}


def _methods() -> Iterator[Case]:
    """Yield adapters, precisions, checkpointing and both allocators on the same model."""
    for policy in ("fp32", "bf16", "bf16_mixed"):
        yield case("methods", f"{policy} 1x1024", train(_SMALL, 1024, policy=policy))
    yield case("methods", "lora 4x1024", lora(_SMALL, 1024, 4))
    yield case("methods", "lora 2x1024", lora("mistral-7b-v0.1", 1024, 2))
    yield case("methods", "lora checkpointed 4x2048", lora(_LARGE, 2048, 4, activation_checkpointing=Checkpointing.FULL))
    checkpointed = train(_SMALL, 1024, 4, policy="amp_bf16", activation_checkpointing=Checkpointing.FULL)
    yield case("methods", "amp_bf16 checkpointed 4x1024", checkpointed)
    expandable = Allocator.EXPANDABLE_SEGMENTS
    yield case("methods", "amp_bf16 1x1024 expandable", train(_SMALL, 1024, policy="amp_bf16", allocator=expandable))
    yield case("methods", "bf16 2x1024 expandable", train("qwen3-1.7b", 1024, 2, allocator=expandable))
    yield case("methods", "serve 8x(1024+64) expandable", serve(_SMALL, 8, 1024, 64, allocator=expandable))


def _ranks() -> Iterator[Case]:
    """Yield one rank of many: sharded, replicated and split."""
    yield case("ranks", "ddp 8", train(_SMALL, 1024, policy="amp_bf16"), layout=Layout(data_parallel=8))
    for model, num_ranks in ((_SMALL, 8), (_LARGE, 8), (_LARGE, 64)):
        workload = TrainWorkload(
            sequence_length=2048, precision=_CAST_WHEN_GATHERED, activation_checkpointing=Checkpointing.FULL
        )
        yield case("ranks", f"fsdp2 {num_ranks}", (model, workload), layout=_sharded(num_ranks))
    split = Layout(tensor_parallel=4)
    yield case("ranks", "tp 4", train(_LARGE, 1024), layout=split)
    yield case("ranks", "serve tp 4", serve(_LARGE, 8, 1024, 64), layout=split)


def _sharded(num_ranks: int) -> Layout:
    return Layout(data_parallel=num_ranks, zero_stage=3, sharding=Sharding.FSDP2)


def _slices(whole: Case) -> list[Case]:
    """Return the few layers from which the full depth of a case follows."""
    architecture = load_architecture(resolve_model(whole.model))
    adapted = isinstance(whole.task.workload, TrainWorkload) and whole.task.workload.lora is not None
    slices = next(iter(slicings(architecture, adapted=adapted)), ())
    return [
        structs.replace(whole, name=f"{whole.name} layers {'-'.join(map(str, one.layers))}", group="slices", layers=one.layers)
        for one in slices
    ]


def _optimizers() -> Iterator[Case]:
    for optimizer in ("adamw", "adamw_fused", "adamw_loop", "sgd", "sgd_momentum"):
        yield case("optimizers", f"bf16 {optimizer}", train("qwen3-0.6b", 512, optimizer=optimizer))
    yield case("optimizers", "fp32 adamw_fused", train("qwen3-0.6b", 512, policy="fp32", optimizer="adamw_fused"))
    yield case("optimizers", "bf16 adamw clipped", train("qwen3-0.6b", 512, gradient_clipping=True))


def _attention() -> Iterator[Case]:
    for attention in (Attention.EAGER, Attention.MATH, Attention.EFFICIENT, Attention.FLASH):
        # The memory-efficient kernel takes no grouped heads, and transformers hands it those of a llama-3 as they are.
        yield case("attention", f"train {attention.value} 2x1024", train("smollm2-1.7b", 1024, 2, attention=attention))
    yield case("attention", "train padded 2x1024", train(_SMALL, 1024, 2, padding_mask=True))
    yield case("attention", "train fp32 1x1024", train("qwen3-0.6b", 1024, policy="fp32"))


def _sizes() -> Iterator[Case]:
    for batch, tokens in product((1, 2, 4), (512, 2048)):
        yield case("sizes", f"amp_bf16 {batch}x{tokens}", train(_SMALL, tokens, batch, policy="amp_bf16"))
    yield case("sizes", "bf16 1x8192", train("qwen3-0.6b", 8192))
    yield case("sizes", "bf16 8x256", train("qwen3-0.6b", 256, 8))


def _policies() -> Iterator[Case]:
    for policy in ("fp16", "amp_fp16", "megatron_bf16", "deepspeed_bf16"):
        yield case("policies", f"{policy} 1x512", train("qwen3-0.6b", 512, policy=policy))
    yield case("policies", "bf16 accumulated 4", train("qwen3-0.6b", 512, gradient_accumulation_steps=4))
    yield case("policies", "bf16 logits kept", train("qwen3-0.6b", 512, keeps_logits=True))


def _serving() -> Iterator[Case]:
    for num, prompt in ((1, 8192), (32, 512)):
        yield case("serving", f"{num}x({prompt}+64)", serve(_SMALL, num, prompt, 64))
    yield case("serving", "static 8x(1024+64)", serve(_SMALL, 8, 1024, 64, cache=Cache.STATIC))
    half = {"weight_dtype": DType.FP16, "kv_cache_dtype": DType.FP16}
    yield case("serving", "fp16 8x(1024+64)", serve("qwen3-1.7b", 8, 1024, 64, **half))
    full = {"weight_dtype": DType.FP32, "kv_cache_dtype": DType.FP32}
    yield case("serving", "fp32 4x(512+64)", serve("qwen3-0.6b", 4, 512, 64, **full))


def _limits() -> Iterator[Case]:
    """Yield what no GPU of today holds: running out is a result as well."""
    yield case("limits", "amp_bf16 64x4096", train(_SMALL, 4096, 64, policy="amp_bf16"))
    yield case("limits", "serve 512x(4096+64)", serve(_LARGE, 512, 4096, 64))
