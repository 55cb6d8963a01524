"""Steps towards less memory, in their order."""

from collections.abc import Callable, Iterator
from functools import partial

from service.estimator.model.architecture import Architecture
from service.planner.fit.evaluator import Config
from service.planner.remedies import (
    evaluation_steps,
    host_steps,
    layout_steps,
    policy_steps,
    serving_steps,
    training_steps,
)

RemedyStep = Callable[[Config], Iterator[Config]]
"""Yields every configuration that a step leads to, the mildest first; none where the step is taken
already or makes no sense.
"""
ModelStep = Callable[[Architecture, Config], Iterator[Config]]

STEPS: tuple[RemedyStep, ...] = (
    training_steps.use_lora,
    training_steps.use_qlora,
    training_steps.keep_norms_and_head,
    training_steps.drop_master_weights,
    training_steps.use_fused_optimizer,
    training_steps.drop_logits,
    training_steps.use_flash_attention,
    training_steps.use_smaller_loss,
    training_steps.shrink_optimizer_states,
    training_steps.step_in_backward,
    training_steps.drop_reference,
    evaluation_steps.keep_losses_alone,
    policy_steps.shorten_engine,
    policy_steps.let_engine_sleep,
    policy_steps.move_states,
    training_steps.use_selective_checkpointing,
    training_steps.use_full_checkpointing,
    training_steps.use_expandable_segments,
    training_steps.offload_states,
    training_steps.offload_activations,
    serving_steps.drop_draft,
    serving_steps.use_fp8_cache,
    serving_steps.quantize_weights,
    host_steps.use_smaller_file,
    host_steps.use_cache_of_blocks,
    serving_steps.skip_cuda_graphs,
    serving_steps.raise_memory_fraction,
    serving_steps.limit_scheduled_sequences,
    layout_steps.raise_zero_stage,
)
MODEL_STEPS: tuple[ModelStep, ...] = (
    training_steps.adapt_attention_only,
    serving_steps.leave_packed,
    serving_steps.limit_items,
)
GRADED_MODEL_STEPS: tuple[ModelStep, ...] = (
    serving_steps.shorten_sequences,
    host_steps.move_experts_to_host,
    host_steps.move_layers_to_host,
    host_steps.keep_weights_on_host,
)
GRADED_STEPS: tuple[RemedyStep, ...] = (
    policy_steps.shrink_engine,
    evaluation_steps.halve_evaluated_batch,
    evaluation_steps.keep_fewer_batches,
    serving_steps.limit_batched_tokens,
    training_steps.halve_micro_batch,
    serving_steps.reduce_sequences,
    layout_steps.add_pipeline_stages,
    layout_steps.split_replica,
    layout_steps.share_sequences,
    layout_steps.add_data_parallel_ranks,
)
"""Steps of which each further stride needs no more memory than the one before.

They come last: of several steps these are taken as far as is needed.
"""


LAST_RESORT: RemedyStep = training_steps.cut_sequences
"""A graded step towards another job, which counts only where nothing else fits."""


_SHRINK_WEIGHTS = frozenset(
    {
        serving_steps.drop_draft,
        serving_steps.quantize_weights,
        host_steps.use_smaller_file,
        host_steps.move_experts_to_host,
        host_steps.move_layers_to_host,
        host_steps.keep_weights_on_host,
        layout_steps.add_pipeline_stages,
        layout_steps.split_replica,
    }
)
"""Steps without which a replica's weights stay as large as they are."""


def shrinks_weights(step: RemedyStep) -> bool:
    """Return whether a step makes a replica's weights smaller."""
    return (step.func if isinstance(step, partial) else step) in _SHRINK_WEIGHTS


def list_steps(
    model: Architecture, *, last_resort: bool = False
) -> tuple[tuple[RemedyStep, bool], ...]:
    """Return the steps of a model, and whether each is graded."""
    alternatives = (*STEPS, *(partial(step, model) for step in MODEL_STEPS))
    graded = (
        *(partial(step, model) for step in GRADED_MODEL_STEPS),
        *((LAST_RESORT,) if last_resort else ()),
        *GRADED_STEPS,
    )
    return (*((step, False) for step in alternatives), *((step, True) for step in graded))
