"""Effects of a change on the result of a job, in words.

What costs quality, serves less or trains something else is named; what is left computes the same up
to rounding.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from service.estimator.model.architecture import Architecture
from service.estimator.rules.warnings import adapts_experts
from service.estimator.values.batches import Evaluation
from service.estimator.values.generation import Rollout
from service.estimator.values.layout import Layout
from service.estimator.values.workload import (
    Lora,
    Method,
    Quantization,
    ServeWorkload,
    TrainWorkload,
)
from service.planner.fit.evaluator import Config

_LOADED = frozenset({Quantization.INT8, Quantization.NF4, Quantization.FP8})
"""Formats into which weights are rounded as they are loaded; others need a checkpoint in them."""
_KERNELS = "for which transformers takes triton 3.4 and the package kernels"
_EIGHT_BITS = "8bit"


Effect = tuple[str, str]
"""What an effect is about, nothing where the load that was asked for has none of it, and a
sentence.
"""
_LIMIT = ""


def describe_effects(model: Architecture, before: Config, after: Config) -> tuple[str, ...]:
    """Return what a change does to the result, nothing where it stays."""
    return tuple(text for _, text in _iter_effects(model, before, after))


def list_losses(model: Architecture, before: Config, after: Config) -> frozenset[str]:
    """Return what of the result a change alters.

    Limits beyond the load that is asked for are none of it.
    """
    return frozenset(about for about, _ in _iter_effects(model, before, after) if about != _LIMIT)


def _iter_effects(model: Architecture, before: Config, after: Config) -> Iterator[Effect]:
    match before, after:
        case (TrainWorkload() as first, layout), (TrainWorkload() as second, changed):
            yield from _iter_training_effects(model, first, second)
            yield from _iter_batch_effects((first, layout), (second, changed))
        case (ServeWorkload() as first, _), (ServeWorkload() as second, _):
            yield from _iter_serving_effects(model, first, second)


def _iter_training_effects(
    model: Architecture, before: TrainWorkload, after: TrainWorkload
) -> Iterator[Effect]:
    if before.method is Method.FULL and after.lora is not None:
        rank = after.lora.rank
        yield "method", f"adapters of rank {rank} are trained in place of all weights"
    if after.method is Method.QLORA and before.method is not Method.QLORA:
        yield "weights", "the frozen weights are rounded to 4 bits"
    if before.method is Method.QLORA and after.fp32_norms_and_head != before.fp32_norms_and_head:
        yield "norms", "norms, embeddings and head stay in 16 bits, not in fp32"
    if after.lora is not None and after.lora.targets is not None and after.lora != before.lora:
        yield "targets", _describe_targets(model, after.lora, after.lora.targets)
    had_masters, has_masters = (
        workload.method is Method.FULL and workload.precision.master_dtype is not None
        for workload in (before, after)
    )
    if had_masters and not has_masters and after.method is Method.FULL:
        name = after.precision.name
        yield "masters", f"no fp32 master weights: updates are rounded to {name}"
    if _EIGHT_BITS in after.optimizer and _EIGHT_BITS not in before.optimizer:
        yield "moments", "the optimizer's moments are rounded to 8 bits"
    if after.evaluation != before.evaluation:
        yield from _iter_evaluation_effects(before.evaluation, after.evaluation)
    if after.rollout != before.rollout and after.rollout is not None:
        yield from _iter_rollout_effects(before.rollout, after.rollout)
    if after.sequence_length < before.sequence_length:
        yield "sequences", f"sequences are cut at {after.sequence_length:,} tokens"


def _iter_evaluation_effects(
    before: Evaluation | None, after: Evaluation | None
) -> Iterator[Effect]:
    if before is not None and before.kept_batches and after is not None and not after.kept_batches:
        yield "metrics", "evaluations have losses alone, and no metrics of logits"


def _iter_rollout_effects(before: Rollout | None, after: Rollout) -> Iterator[Effect]:
    share = None if before is None else before.gpu_memory_fraction
    if after.gpu_memory_fraction != share:
        yield "rollout", f"the rollout's pool is that of {after.gpu_memory_fraction} of a GPU"
    if after.max_model_len != (None if before is None else before.max_model_len):
        yield "length", f"the engine accepts sequences of {after.max_model_len:,} tokens"
    if before is None or after.sleep_level > before.sleep_level:
        yield "sleep", "the engine wakes for every rollout, and its weights are sent again"


def _describe_targets(model: Architecture, lora: Lora, targets: Sequence[str]) -> str:
    instead = (
        f", not on the {model.spec.num_experts} experts of a layer"
        if adapts_experts(model, replace(lora, targets=None))
        else ""
    )
    return f"adapters on attention alone ({', '.join(targets)}){instead}"


def _iter_batch_effects(
    before: tuple[TrainWorkload, Layout], after: tuple[TrainWorkload, Layout]
) -> Iterator[Effect]:
    first, second = count_global_batch(*before), count_global_batch(*after)
    if first != second:
        yield "global batch", f"the global batch is {second:,} sequences, not {first:,}"


def count_global_batch(workload: TrainWorkload, layout: Layout) -> int:
    """Return the sequences of an optimizer step, over all ranks."""
    per_rank = workload.micro_batch_size * workload.gradient_accumulation_steps
    return per_rank * layout.data_parallel


def _iter_item_effects(before: ServeWorkload, after: ServeWorkload) -> Iterator[Effect]:
    for word, most, previous in (
        ("videos", after.max_videos_per_prompt, before.max_videos_per_prompt),
        ("images", after.max_images_per_prompt, before.max_images_per_prompt),
    ):
        if most is not None and most != previous:
            yield _LIMIT, f"prompts have {f'at most {most}' if most else 'no'} {word}"


def _list_host_words(workload: ServeWorkload) -> tuple[object, ...]:
    return workload.gpu_layers, workload.cpu_moe_layers, workload.cpu_offload_gb


def _iter_serving_effects(
    model: Architecture, before: ServeWorkload, after: ServeWorkload
) -> Iterator[Effect]:
    if after.quantization is not before.quantization and model.unpacked is not None:
        yield _LIMIT, f"the experts stay in {after.quantization.value}, {_KERNELS}"
    elif after.quantization is not before.quantization:
        source = "" if after.quantization in _LOADED else ", of which it takes a checkpoint"
        yield "weights", f"the weights are rounded to {after.quantization.value}{source}"
    if after.kv_cache_dtype is not before.kv_cache_dtype:
        yield "cache", f"keys and values are rounded to {after.kv_cache_dtype.value}"
    if after.cache_type is not before.cache_type and after.cache_type is not None:
        yield "cache", f"keys and values are rounded to {after.cache_type.value}"
    if _list_host_words(after) != _list_host_words(before):
        yield _LIMIT, "every token reads weights in the host's memory, for which no time is told"
    if after.num_sequences != before.num_sequences:
        run, asked_for = after.num_sequences, before.num_sequences
        number = f"{run:,} sequences run" if run > 1 else "1 sequence runs"
        yield "load", f"{number} at once, not {asked_for:,}"
    yield from _iter_item_effects(before, after)
    if after.max_model_len is not None and after.max_model_len != before.max_model_len:
        yield _LIMIT, f"longer requests than {after.max_model_len:,} tokens are refused"
    if after.max_num_sequences != before.max_num_sequences:
        yield _LIMIT, f"more requests than {after.max_num_sequences:,} at once wait"
