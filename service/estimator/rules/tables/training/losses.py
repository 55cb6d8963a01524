"""Rules of the losses that transformers' modules can end in."""

from service.estimator.rules.grammar.conditions import (
    all_of,
    any_of,
    is_at_most,
    is_false,
    is_given,
    is_in,
    is_not_in,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.fields import layout, model, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.models import (
    has_backbone_hidden,
    has_unscaled_hidden,
    has_unscaled_logits,
)
from service.estimator.values.layout import Sharding
from service.estimator.values.losses import (
    BALANCED_FAMILIES,
    LIGER_FAMILIES,
    LIGER_PATCHED,
    LOG_PROB_LOSSES,
    PAIRED_TRAINERS,
    REFERRING_TRAINERS,
    UNBALANCED_FAMILIES,
    UNREFERRED_TRAINERS,
    Kernels,
    Loss,
    Reference,
    Trainer,
)

_FUSED_HEAD = is_in(workload.loss, *sorted(LOG_PROB_LOSSES))

_GATHERS_ALL = is_in(
    workload.trainer, *sorted((PAIRED_TRAINERS | REFERRING_TRAINERS) - UNREFERRED_TRAINERS)
)
"""Trainers of preferences that run more than the model's own forward."""

_NOT_SUPERVISED = is_not_in(workload.trainer, Trainer.SUPERVISED)

_HEAD_IN_ROOT = all_of(
    is_in(workload.trainer, Trainer.GRPO),
    is_in(layout.sharding, Sharding.FSDP2),
    is_false(layout.shard_embeddings_separately),
)
"""FSDP2's root unit is gathered while a head in it is read by its weight."""

_LIGER = is_in(workload.kernels, Kernels.LIGER)

_OWN_KERNELS = is_not_in(workload.kernels, Kernels.TORCH)

_FOAK_FLAT = all_of(is_in(workload.kernels, Kernels.FOAK), is_in(layout.sharding, Sharding.FSDP1))
"""Foak patches modules and functions, and leaves the units of FSDP1 as they are."""

_MONKEY_PATCH = "liger-kernel 0.8 transformers/monkey_patch.py"

_TRL = "trl 1.16 trainer/utils.py, add_fused_lm_head"

_EXPERT_LOSS = "loss {workload.loss} of the experts of {model.family}"

LOSSES = (
    Rule(
        when=all_of(is_true(workload.keeps_logits), is_not_in(workload.loss, Loss.FULL_LOGITS)),
        require=is_in(workload.loss, Loss.FUSED_CROSS_ENTROPY, Loss.FLASH_CROSS_ENTROPY),
        field=workload.keeps_logits.path,
        topic=Topic.LOSS,
        refusal=invalid(
            "keeps_logits has nothing to keep: {workload.loss} never holds all logits in one "
            "tensor; drop keeps_logits"
        ),
        source="liger-kernel, fused_linear_cross_entropy",
    ),
    Rule(
        when=is_in(workload.loss, Loss.CHUNKED),
        require=satisfies(has_unscaled_hidden),
        field=workload.loss.path,
        topic=Topic.LOSS,
        refusal=unmodelled(
            "chunked logits of {model.family}, which scales or caps them",
            *("full_logits", "fused_cross_entropy"),
        ),
    ),
    Rule(
        when=all_of(
            is_in(workload.loss, Loss.FUSED_LINEAR), is_in(workload.kernels, Kernels.TORCH)
        ),
        require=satisfies(has_unscaled_logits),
        field=workload.loss.path,
        topic=Topic.LOSS,
        refusal=unmodelled(
            "fused_linear of {model.family}, which scales or caps its logits",
            *("full_logits", "fused_cross_entropy"),
        ),
    ),
    Rule(
        when=_FUSED_HEAD,
        require=satisfies(has_backbone_hidden),
        field=workload.loss.path,
        topic=Topic.LOSS,
        refusal=unmodelled(
            "loss {workload.loss} of {model.family}, whose head reads more than the last hidden "
            "state of a decoder of text",
            *("full_logits", "fused_cross_entropy"),
        ),
        source=_TRL,
    ),
    Rule(
        when=all_of(_FUSED_HEAD, is_in(workload.trainer, Trainer.GRPO)),
        require=is_at_most(model.num_experts, 1),
        field=workload.loss.path,
        topic=Topic.LOSS,
        refusal=unmodelled(
            f"{_EXPERT_LOSS} with trainer grpo, to which TRL adds the router's balancing loss",
            *("loss full_logits", "loss flash_cross_entropy"),
        ),
        source="trl 1.16 trainer/grpo_trainer.py, aux_loss_enabled",
    ),
    Rule(
        when=all_of(
            _FUSED_HEAD, is_not_in(model.family, *sorted(BALANCED_FAMILIES | UNBALANCED_FAMILIES))
        ),
        require=is_at_most(model.num_experts, 1),
        field=workload.loss.path,
        topic=Topic.LOSS,
        refusal=unmodelled(
            f"{_EXPERT_LOSS}, to which TRL adds the router's balancing loss",
            *sorted(BALANCED_FAMILIES | UNBALANCED_FAMILIES),
            *("loss full_logits", "loss fused_cross_entropy of trainer supervised"),
        ),
        source="trl 1.16 trainer/sft_trainer.py, aux_loss_enabled",
    ),
    Rule(
        when=_FUSED_HEAD,
        require=any_of(is_at_most(layout.zero_stage, 2), _HEAD_IN_ROOT),
        topic=Topic.LOSS,
        refusal=unmodelled(
            "loss {workload.loss} over sharded weights, which TRL gathers for it",
            *("zero_stage 0, 1 or 2", "sharding fsdp2 of trainer grpo", "loss full_logits"),
        ),
        reason="loss {workload.loss} over sharded weights, which TRL gathers for it",
        source=f"{_TRL}: full_tensor, maybe_gather_lm_head_ctx",
    ),
    Rule(
        when=_NOT_SUPERVISED,
        require=satisfies(has_backbone_hidden),
        field=workload.trainer.path,
        topic=Topic.LOSS,
        refusal=unmodelled(
            "trainer {workload.trainer} of {model.family}",
            "decoders of text",
            "supervised",
        ),
        source=_TRL,
    ),
    Rule(
        when=is_in(workload.loss, Loss.SELECTIVE),
        require=is_in(
            workload.trainer, *sorted(REFERRING_TRAINERS | UNREFERRED_TRAINERS), Trainer.GRPO
        ),
        field=workload.loss.path,
        topic=Topic.LOSS,
        refusal=invalid(
            "loss selective is of trainers dpo, kto, orpo, cpo, simpo and grpo, not "
            "{workload.trainer}: leave loss out"
        ),
        source="trl 1.8 trainer/utils.py, selective_log_softmax",
    ),
    Rule(
        when=is_in(workload.trainer, *sorted(REFERRING_TRAINERS)),
        require=is_in(workload.loss, Loss.CHUNKED_NLL, Loss.NLL, Loss.FULL_LOGITS, Loss.SELECTIVE),
        field=workload.loss.path,
        topic=Topic.LOSS,
        refusal=invalid(
            "trainer {workload.trainer} scores its sequences with loss chunked_nll, as TRL does, "
            "selective, as it did before 1.15, or full_logits, as LLaMA-Factory does, not "
            "{workload.loss}"
        ),
        source="trl 1.16 trainer/dpo_trainer.py, kto_trainer.py; "
        "LLaMA-Factory 0.9.5 train/trainer_utils.py, get_batch_logps",
    ),
    Rule(
        when=is_in(workload.trainer, *sorted(UNREFERRED_TRAINERS)),
        require=is_in(workload.loss, Loss.FULL_LOGITS, Loss.SELECTIVE),
        field=workload.loss.path,
        topic=Topic.LOSS,
        refusal=invalid(
            "trainer {workload.trainer} makes all logits, with loss full_logits, as TRL does, or "
            "selective, as it did before 1.14, not {workload.loss}: leave loss out"
        ),
        source="trl 1.16 experimental/orpo/orpo_trainer.py, cpo/cpo_trainer.py",
    ),
    Rule(
        when=is_in(workload.trainer, Trainer.REWARD),
        require=is_in(workload.loss, Loss.FULL_LOGITS),
        field=workload.loss.path,
        topic=Topic.LOSS,
        refusal=invalid(
            "trainer reward has one score and no logits, and loss is {workload.loss}; leave loss "
            "out"
        ),
        source="trl 1.16 trainer/reward_trainer.py",
    ),
    Rule(
        when=is_in(workload.reference, Reference.ADAPTERS_OFF),
        require=is_given(workload.lora),
        field=workload.reference.path,
        topic=Topic.LOSS,
        refusal=invalid(
            "reference adapters_off needs adapters, and method is {workload.method}: say model or "
            "precomputed"
        ),
        source="trl 1.16 trainer/dpo_trainer.py: is_peft_model",
    ),
    Rule(
        when=_NOT_SUPERVISED,
        require=is_at_most(layout.tensor_parallel, 1),
        topic=Topic.LOSS,
        refusal=unmodelled(
            "trainer {workload.trainer} on tensor-parallel ranks",
            "tensor_parallel 1",
        ),
        reason="trainer {workload.trainer} on tensor-parallel ranks",
    ),
    Rule(
        when=_GATHERS_ALL,
        require=is_at_most(layout.zero_stage, 2),
        topic=Topic.LOSS,
        refusal=unmodelled(
            "trainer {workload.trainer} over sharded weights",
            "zero_stage 0, 1 or 2",
        ),
        reason="trainer {workload.trainer} over sharded weights",
    ),
    Rule(
        when=_NOT_SUPERVISED,
        require=is_false(workload.keeps_logits),
        field=workload.keeps_logits.path,
        topic=Topic.LOSS,
        refusal=invalid("trainer {workload.trainer} has no logits to keep: drop keeps_logits"),
        source=_TRL,
    ),
    Rule(
        when=_LIGER,
        require=is_in(model.family, *sorted(LIGER_PATCHED)),
        field=workload.kernels.path,
        topic=Topic.LOSS,
        refusal=invalid(
            "Liger has no kernels for {model.family}, whose own operations run under "
            "use_liger_kernel: say kernels torch"
        ),
        source=f"{_MONKEY_PATCH}, _apply_liger_kernel_to_instance",
    ),
    Rule(
        when=_LIGER,
        require=is_in(model.family, *sorted(LIGER_FAMILIES)),
        field=workload.kernels.path,
        topic=Topic.LOSS,
        refusal=unmodelled(
            "kernels liger of {model.family}", *sorted(LIGER_FAMILIES), "kernels torch"
        ),
        source=_MONKEY_PATCH,
    ),
    Rule(
        when=_OWN_KERNELS,
        require=is_at_most(layout.tensor_parallel, 1),
        topic=Topic.LOSS,
        refusal=unmodelled(
            "kernels {workload.kernels} on tensor-parallel ranks",
            *("tensor_parallel 1", "kernels torch"),
        ),
        reason="kernels {workload.kernels} on tensor-parallel ranks",
    ),
    Rule(
        when=_OWN_KERNELS,
        require=any_of(is_at_most(layout.zero_stage, 2), _FOAK_FLAT),
        topic=Topic.LOSS,
        refusal=unmodelled(
            "kernels {workload.kernels} over sharded weights",
            *("zero_stage 0, 1 or 2", "kernels torch"),
        ),
        reason="kernels {workload.kernels} over sharded weights",
    ),
)
