"""The cases of a sweep, the most informative first.

A budget that ends early has one of everything.
"""

from collections.abc import Iterator
from itertools import chain, product
from typing import Any

from msgspec import structs

from service.catalog.models import load_architecture, resolve_model
from service.estimator.values.dtypes import DType
from service.estimator.values.generation import Client
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
from service.jobs.contract import make_task
from service.probing.slices import iter_slicings
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
"""fp32 weights under FSDP2's ``MixedPrecisionPolicy(param_dtype=torch.bfloat16)``."""


def list_cases() -> tuple[Case, ...]:
    """Return every case, by importance."""
    full_cases = [*_iter_models(), *_iter_methods()]
    slices = [_make_slices(full_case) for full_case in full_cases]
    varied = (
        *_iter_optimizers(),
        *_iter_attention(),
        *_iter_sizes(),
        *_iter_policies(),
        *_iter_serving(),
        *_iter_limits(),
    )
    early, late = slices[:_NUM_SLICED_EARLY], slices[_NUM_SLICED_EARLY:]
    return (*_iter_smoke(), *full_cases, *_iter_ranks(), *chain(*early), *varied, *chain(*late))


_Question = tuple[str, Workload]


def make_training(
    model: str,
    tokens: int,
    batch: int = 1,
    *,
    policy: str = "bf16",
    **fields: Any,  # noqa: ANN401 - the workload's own fields
) -> tuple[str, Workload]:
    """Return a model and its training, in a plain loop without accelerate."""
    workload = TrainWorkload(
        sequence_length=tokens,
        micro_batch_size=batch,
        precision=POLICIES[policy],
        fp32_outputs=False,
        **fields,
    )
    return model, workload


def make_lora(model: str, tokens: int, batch: int = 1, **fields: Any) -> tuple[str, Workload]:  # noqa: ANN401 - the workload's own fields
    """Return a model and the training of its adapters."""
    return make_training(model, tokens, batch, method=Method.LORA, lora=Lora(rank=16), **fields)


def make_serving(model: str, num: int, prompt: int, output: int, **fields: Any) -> _Question:  # noqa: ANN401 - the workload's own fields
    """Return a model and its serving in a plain loop."""
    fields |= {"prompt_tokens": prompt, "output_tokens": output, "client": Client.LOOP}
    return model, ServeWorkload(num_sequences=num, **fields)


def make_case(group: str, name: str, question: tuple[str, Workload], **fields: Any) -> Case:  # noqa: ANN401 - the case's own fields
    """Return a case of a group."""
    model, workload = question
    return Case(
        name=f"{group}/{model}/{name}", group=group, model=model, task=make_task(workload), **fields
    )


def _iter_smoke() -> Iterator[Case]:
    """Yield cases that any machine runs in seconds.

    They show that everything works before minutes are spent.
    """
    yield make_case(
        "smoke", "train", make_training("gpt2", 16, policy="fp32"), layers=(0, 1), small=True
    )
    yield make_case("smoke", "serve", make_serving("gpt2", 2, 12, 4), layers=(0, 1), small=True)


def _iter_models() -> Iterator[Case]:
    """Yield one training and one serving of each family."""
    yield make_case("models", "amp_bf16 1x1024", make_training(_SMALL, 1024, policy="amp_bf16"))
    yield make_case("models", "serve 8x(1024+64)", make_serving(_SMALL, 8, 1024, 64))
    yield make_case(
        "models",
        "bf16 checkpointed fused 1x2048",
        make_training(_LARGE, 2048, **_make_frugal_options()),
    )
    yield make_case("models", "serve 8x(2048+128)", make_serving(_LARGE, 8, 2048, 128))
    for model in (
        "gpt2",
        "qwen3-0.6b",
        "gemma-3-1b",
        "qwen3-1.7b",
        "pythia-1b",
        "opt-1.3b",
        "phi-2",
    ):
        yield make_case("models", "bf16 2x1024", make_training(model, 1024, 2))
    for model in ("qwen3-1.7b", "gemma-3-1b", "mistral-7b-v0.1", "olmoe-1b-7b"):
        yield make_case("models", "serve 4x(1024+64)", make_serving(model, 4, 1024, 64))
    yield make_case(
        "models",
        "bf16 checkpointed fused 1x1024",
        make_training("olmoe-1b-7b", 1024, **_make_frugal_options()),
    )


def _make_frugal_options() -> dict[str, Any]:
    return {"optimizer": "adamw_fused", "activation_checkpointing": Checkpointing.FULL}


def _iter_methods() -> Iterator[Case]:
    """Yield adapters, precisions, checkpointing and both allocators on the same model."""
    for policy in ("fp32", "bf16", "bf16_mixed"):
        yield make_case("methods", f"{policy} 1x1024", make_training(_SMALL, 1024, policy=policy))
    yield make_case("methods", "lora 4x1024", make_lora(_SMALL, 1024, 4))
    yield make_case("methods", "lora 2x1024", make_lora("mistral-7b-v0.1", 1024, 2))
    yield make_case(
        "methods",
        "lora checkpointed 4x2048",
        make_lora(_LARGE, 2048, 4, activation_checkpointing=Checkpointing.FULL),
    )
    checkpointed = make_training(
        _SMALL, 1024, 4, policy="amp_bf16", activation_checkpointing=Checkpointing.FULL
    )
    yield make_case("methods", "amp_bf16 checkpointed 4x1024", checkpointed)
    expandable = Allocator.EXPANDABLE_SEGMENTS
    yield make_case(
        "methods",
        "amp_bf16 1x1024 expandable",
        make_training(_SMALL, 1024, policy="amp_bf16", allocator=expandable),
    )
    yield make_case(
        "methods",
        "bf16 2x1024 expandable",
        make_training("qwen3-1.7b", 1024, 2, allocator=expandable),
    )
    yield make_case(
        "methods",
        "serve 8x(1024+64) expandable",
        make_serving(_SMALL, 8, 1024, 64, allocator=expandable),
    )


def _iter_ranks() -> Iterator[Case]:
    """Yield one rank of many: sharded, replicated and split."""
    yield make_case(
        "ranks",
        "ddp 8",
        make_training(_SMALL, 1024, policy="amp_bf16"),
        layout=Layout(data_parallel=8),
    )
    for model, num_ranks in ((_SMALL, 8), (_LARGE, 8), (_LARGE, 64)):
        workload = TrainWorkload(
            sequence_length=2048,
            precision=_CAST_WHEN_GATHERED,
            activation_checkpointing=Checkpointing.FULL,
        )
        sharded = Layout(data_parallel=num_ranks, zero_stage=3, sharding=Sharding.FSDP2)
        yield make_case("ranks", f"fsdp2 {num_ranks}", (model, workload), layout=sharded)
    split = Layout(tensor_parallel=4)
    yield make_case("ranks", "tp 4", make_training(_LARGE, 1024), layout=split)
    yield make_case("ranks", "serve tp 4", make_serving(_LARGE, 8, 1024, 64), layout=split)


def _make_slices(full_case: Case) -> list[Case]:
    """Return the slices of layers that determine a case's full depth."""
    architecture = load_architecture(resolve_model(full_case.model))
    adapted = (
        isinstance(full_case.task.workload, TrainWorkload)
        and full_case.task.workload.lora is not None
    )
    slices = next(iter(iter_slicings(architecture, adapted=adapted)), ())
    return [
        structs.replace(
            full_case,
            name=f"{full_case.name} layers {'-'.join(map(str, part.layers))}",
            group="slices",
            layers=part.layers,
        )
        for part in slices
    ]


def _iter_optimizers() -> Iterator[Case]:
    for optimizer in ("adamw", "adamw_fused", "adamw_loop", "sgd", "sgd_momentum"):
        yield make_case(
            "optimizers", f"bf16 {optimizer}", make_training("qwen3-0.6b", 512, optimizer=optimizer)
        )
    yield make_case(
        "optimizers",
        "fp32 adamw_fused",
        make_training("qwen3-0.6b", 512, policy="fp32", optimizer="adamw_fused"),
    )
    yield make_case(
        "optimizers", "bf16 adamw clipped", make_training("qwen3-0.6b", 512, gradient_clipping=True)
    )


def _iter_attention() -> Iterator[Case]:
    for attention in (Attention.EAGER, Attention.MATH, Attention.EFFICIENT, Attention.FLASH):
        # The memory-efficient kernel takes no grouped heads, and transformers hands it those of a
        # llama-3 as they are.
        yield make_case(
            "attention",
            f"train {attention.value} 2x1024",
            make_training("smollm2-1.7b", 1024, 2, attention=attention),
        )
    yield make_case(
        "attention", "train padded 2x1024", make_training(_SMALL, 1024, 2, padding_mask=True)
    )
    yield make_case(
        "attention", "train fp32 1x1024", make_training("qwen3-0.6b", 1024, policy="fp32")
    )


def _iter_sizes() -> Iterator[Case]:
    for batch, tokens in product((1, 2, 4), (512, 2048)):
        yield make_case(
            "sizes",
            f"amp_bf16 {batch}x{tokens}",
            make_training(_SMALL, tokens, batch, policy="amp_bf16"),
        )
    yield make_case("sizes", "bf16 1x8192", make_training("qwen3-0.6b", 8192))
    yield make_case("sizes", "bf16 8x256", make_training("qwen3-0.6b", 256, 8))


def _iter_policies() -> Iterator[Case]:
    for policy in ("fp16", "amp_fp16", "megatron_bf16", "deepspeed_bf16"):
        yield make_case(
            "policies", f"{policy} 1x512", make_training("qwen3-0.6b", 512, policy=policy)
        )
    yield make_case(
        "policies",
        "bf16 accumulated 4",
        make_training("qwen3-0.6b", 512, gradient_accumulation_steps=4),
    )
    yield make_case(
        "policies", "bf16 logits kept", make_training("qwen3-0.6b", 512, keeps_logits=True)
    )


def _iter_serving() -> Iterator[Case]:
    for num, prompt in ((1, 8192), (32, 512)):
        yield make_case("serving", f"{num}x({prompt}+64)", make_serving(_SMALL, num, prompt, 64))
    yield make_case(
        "serving", "static 8x(1024+64)", make_serving(_SMALL, 8, 1024, 64, cache=Cache.STATIC)
    )
    half = {"weight_dtype": DType.FP16, "kv_cache_dtype": DType.FP16}
    yield make_case("serving", "fp16 8x(1024+64)", make_serving("qwen3-1.7b", 8, 1024, 64, **half))
    full = {"weight_dtype": DType.FP32, "kv_cache_dtype": DType.FP32}
    yield make_case("serving", "fp32 4x(512+64)", make_serving("qwen3-0.6b", 4, 512, 64, **full))


def _iter_limits() -> Iterator[Case]:
    """Yield cases that no GPU of today holds.

    Running out of memory is a result as well.
    """
    yield make_case(
        "limits", "amp_bf16 64x4096", make_training(_SMALL, 4096, 64, policy="amp_bf16")
    )
    yield make_case("limits", "serve 512x(4096+64)", make_serving(_LARGE, 512, 4096, 64))
