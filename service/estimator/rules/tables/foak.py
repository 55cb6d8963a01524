"""Rules of fms-acceleration's fused ops and kernels (foak)."""

from service.estimator.rules.grammar.conditions import all_of, is_given, is_in, satisfies
from service.estimator.rules.grammar.fields import model, workload
from service.estimator.rules.grammar.rule import Rule, Topic, unmodelled
from service.estimator.rules.predicates.lora_kernels import (
    has_plain_variant,
    joins_gated,
    suits_foak,
)
from service.estimator.rules.predicates.models import get_training
from service.estimator.values.losses import FOAK_FAMILIES, Kernels, Loss, Trainer
from service.estimator.values.workload import Method

_FOAK = is_in(workload.kernels, Kernels.FOAK)

_ADAPTED = all_of(_FOAK, is_given(workload.lora))

_BASE = (workload.lora, workload.method, workload.framework_version, workload.quantization_bits)

_PLUGIN = "fms-acceleration-foak 0.7"

UNTRAINED_NORMS = all_of(_FOAK, is_in(workload.frozen, ("norm",)))
"""Norms without a gradient are parameters of the flat one, which has no state of theirs
(``_flat_param.py``, ``_is_grad_none_mask``).
"""

FOAK = (
    Rule(
        when=_FOAK,
        require=is_in(model.family, *sorted(FOAK_FAMILIES)),
        field=workload.kernels.path,
        topic=Topic.LOSS,
        refusal=unmodelled(
            "kernels foak of {model.family}", *sorted(FOAK_FAMILIES), "kernels torch"
        ),
        source=f"{_PLUGIN} models/",
    ),
    Rule(
        when=_FOAK,
        require=is_in(workload.trainer, Trainer.SUPERVISED),
        topic=Topic.LOSS,
        refusal=unmodelled("kernels foak with trainer {workload.trainer}", "trainer supervised"),
    ),
    Rule(
        when=_FOAK,
        require=is_in(workload.loss, Loss.FUSED_CROSS_ENTROPY),
        topic=Topic.LOSS,
        refusal=unmodelled("kernels foak without its loss", "loss fused_cross_entropy"),
        source=f"{_PLUGIN} kernels/unsloth/cross_entropy_loss.py, FastForCausalLMLoss",
    ),
    Rule(
        when=all_of(_FOAK, is_in(workload.method, Method.FULL)),
        require=satisfies(lambda case: "norm" in get_training(case).frozen, workload.frozen),
        field=workload.frozen.path,
        topic=Topic.LOSS,
        refusal=unmodelled(
            "norms that foak's kernel gives no gradient and that are stepped", 'frozen ["norm"]'
        ),
        source=f"{_PLUGIN} kernels/unsloth/rms_layernorm.py, Fast_RMS_Layernorm",
    ),
    Rule(
        when=_ADAPTED,
        require=satisfies(suits_foak, *_BASE),
        field=workload.kernels.path,
        topic=Topic.ADAPTERS,
        refusal=unmodelled(
            "kernels foak over weights of {model.packing}", "nf4", "GPTQ", "16 bits"
        ),
        source=f"{_PLUGIN} fused_ops/unsloth_lora/gptq",
    ),
    Rule(
        when=_ADAPTED,
        require=satisfies(has_plain_variant, workload.lora),
        field="workload.lora.variant",
        topic=Topic.ADAPTERS,
        refusal=unmodelled("kernels foak beside DoRA", "variant lora", "rslora"),
    ),
    Rule(
        when=_ADAPTED,
        require=satisfies(lambda case: not joins_gated(case), *_BASE),
        field="workload.lora.target_modules",
        topic=Topic.ADAPTERS,
        refusal=unmodelled(
            "kernels foak over quantised gated layers with adapters",
            "target_modules of attention alone",
        ),
        source=f"{_PLUGIN} fused_ops/unsloth_lora/bnb/fast_lora.py, LoRA_MLP",
    ),
)
