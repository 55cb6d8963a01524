"""Rules of a probe's own training and serving loops."""

from service.estimator.rules.grammar.conditions import (
    Condition,
    Field,
    all_of,
    any_of,
    is_above,
    is_absent,
    is_false,
    is_given,
    is_in,
    is_not_in,
    is_same,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import layout, lora, model, precision, workload
from service.estimator.rules.grammar.rule import Rule
from service.estimator.rules.predicates.lora_kernels import has_kernels
from service.estimator.rules.predicates.models import get_training
from service.estimator.values.batches import SequencePacking
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Sharding
from service.estimator.values.losses import Kernels, Loss, Trainer
from service.estimator.values.optimizers import COMPRESSING, OptimizerName
from service.estimator.values.precision import Precision
from service.estimator.values.workload import (
    Cache,
    Checkpointing,
    Engine,
    Framework,
    Method,
    Offload,
    Quantization,
    TrainWorkload,
)

PROBE_DTYPES = (DType.FP32, DType.BF16, DType.FP16)

PROBE_METHODS = (Method.FULL, Method.LORA)

PROBE_OPTIMIZERS = tuple(name for name in OptimizerName if name not in COMPRESSING)
"""All but those of DeepSpeed's engine: a worker without a package refuses it when it begins."""

ELEMENTWISE_OPTIMIZERS = ("adamw", "adamw_fused", "adamw_loop", "sgd", "sgd_momentum")
"""Optimizers of torch that step distributed tensors as they step plain ones."""

MIXED_OPTIMIZERS = ("adamw", "adamw_loop", "sgd", "sgd_momentum")
"""Optimizers that a probe runs on fp32 masters with 16-bit gradients: the fused one does so in
CUDA's own kernels alone.
"""

_LOOP, _RANKS, _MODELS = "worker/probes/run", "worker/probes/ranks", "worker/probes/models"


def is_mixed(workload: TrainWorkload) -> bool:
    """Return whether fp32 masters are updated from 16-bit gradients.

    The optimizer does so directly; adapters in fp32 are their own masters.
    """
    precision = workload.precision
    trained = precision.param_dtype if workload.lora is None else workload.lora.dtype
    return (
        precision.master_dtype is not None
        and precision.main_grad_dtype is None
        and trained is not DType.FP32
    )


def is_consistent(precision: Precision) -> bool:
    """Return whether the plain loop can keep the states.

    They are in the dtype of the weights, or in fp32 beside 16-bit weights.
    """
    if precision.master_dtype is None:
        return (
            precision.grad_dtype is precision.param_dtype is precision.optimizer_dtype
            and precision.main_grad_dtype is None
        )
    states = {precision.master_dtype, precision.main_grad_dtype, precision.optimizer_dtype}
    moved = precision.grad_dtype is precision.main_grad_dtype and precision.main_grad_persistent
    return states - {None} == {DType.FP32} and (
        moved or precision.grad_dtype is precision.param_dtype
    )


def _mixes(case: Case) -> bool:
    return is_mixed(get_training(case))


def _runs_in_precision(case: Case) -> bool:
    precision = get_training(case).precision
    casts = precision.compute_dtype is not precision.param_dtype and not precision.autocast
    return is_consistent(precision) and (not casts or case.layout.sharding is Sharding.FSDP2)


def _make_dtype_rule(field: Field[DType]) -> Rule:
    return Rule(
        require=is_in(field, *PROBE_DTYPES),
        obstacle=f"a probe has no {{{field.path}}}; it runs {', '.join(PROBE_DTYPES)}",
        source=_MODELS,
    )


def _make_loop_rule(require: Condition, runs: str, shown: str | None = None) -> Rule:
    """Return the rule that the plain loop fixes one setting."""
    name = require.field.rpartition(".")[2]
    quoted = f"{{{require.field}}}" if shown is None else shown
    return Rule(
        require=require,
        obstacle=lambda case: (
            f"a probe runs the plain training loop: {name} {runs}, not "
            f"{quoted.format(workload=case.workload)}"
        ),
        source=_LOOP,
    )


TRAINING = (
    _make_dtype_rule(precision.param_dtype),
    _make_dtype_rule(precision.compute_dtype),
    Rule(
        require=is_in(workload.method, *PROBE_METHODS),
        obstacle=f"a probe trains with method {', '.join(PROBE_METHODS)}, not {{workload.method}}",
        source=_MODELS,
    ),
    Rule(
        when=is_given(workload.lora),
        require=is_in(lora.variant, "lora"),
        obstacle="a probe makes plain adapters, variant lora, not {workload.lora.variant}",
        source=_MODELS,
    ),
    Rule(
        when=is_given(workload.lora),
        require=is_in(lora.dtype, DType.FP32),
        obstacle="a probe makes adapters in fp32, as PEFT does, not in {workload.lora.dtype}",
        source=_MODELS,
    ),
    Rule(
        require=satisfies(lambda case: not has_kernels(case), workload.lora),
        obstacle="a probe runs PEFT's modules: leave lora.kernels out",
        source=_MODELS,
    ),
    Rule(
        require=is_false(workload.fp32_norms_and_head),
        obstacle="a probe leaves norms and head in the weights' dtype: ask with "
        "fp32_norms_and_head false",
        source=_MODELS,
    ),
    Rule(
        when=is_in(workload.framework, Framework.TRANSFORMERS),
        require=is_absent(workload.framework_version),
        obstacle="a probe runs the release that its worker has installed, not "
        "{workload.framework_version}: leave it out",
        source=_LOOP,
    ),
    _make_loop_rule(is_in(workload.framework, Framework.TRANSFORMERS), Framework.TRANSFORMERS),
    _make_loop_rule(is_in(workload.loss, Loss.FULL_LOGITS), Loss.FULL_LOGITS),
    _make_loop_rule(
        is_in(workload.trainer, Trainer.SUPERVISED),
        Trainer.SUPERVISED,
    ),
    _make_loop_rule(is_in(workload.kernels, Kernels.TORCH), Kernels.TORCH),
    _make_loop_rule(is_in(workload.packing, SequencePacking.NONE), SequencePacking.NONE),
    _make_loop_rule(is_in(workload.sequence_lengths, ()), "all alike", "some"),
    _make_loop_rule(is_in(workload.offload, Offload()), "none", "some"),
    Rule(
        require=is_in(workload.frozen, ()),
        obstacle=lambda case: (
            "a probe runs the plain training loop: frozen [], not "
            f"{list(get_training(case).frozen)}"
        ),
        source=_LOOP,
    ),
    Rule(
        require=is_absent(workload.evaluation),
        obstacle="a probe runs steps without an evaluation: leave evaluation out",
        source=_LOOP,
    ),
    _make_loop_rule(is_false(workload.compile), "false", "true"),
    _make_loop_rule(is_false(workload.optimizer_in_backward), "false", "true"),
    _make_loop_rule(is_false(workload.reentrant_checkpointing), "false", "true"),
    _make_loop_rule(
        is_not_in(workload.activation_checkpointing, Checkpointing.SELECTIVE), "none or full"
    ),
    Rule(
        require=is_in(workload.optimizer, *PROBE_OPTIMIZERS),
        obstacle=f"a probe runs optimizer {', '.join(PROBE_OPTIMIZERS)}, not "
        "{workload.optimizer}",
        source=_LOOP,
    ),
    Rule(
        when=any_of(is_in(layout.sharding, Sharding.FSDP2), is_above(layout.tensor_parallel, 1)),
        require=is_in(workload.optimizer, *ELEMENTWISE_OPTIMIZERS),
        obstacle=f"on a rank with split weights a probe runs optimizer "
        f"{', '.join(ELEMENTWISE_OPTIMIZERS)}, not {{workload.optimizer}}",
        source=_LOOP,
    ),
    Rule(
        when=all_of(
            is_in(workload.optimizer, *PROBE_OPTIMIZERS),
            satisfies(_mixes, workload.precision, workload.lora),
        ),
        require=is_in(workload.optimizer, *MIXED_OPTIMIZERS),
        obstacle="with 16-bit gradients for fp32 masters a probe runs optimizer "
        f"{', '.join(MIXED_OPTIMIZERS)}, not {{workload.optimizer}}",
        source=_LOOP,
    ),
    Rule(
        require=satisfies(_runs_in_precision, workload.precision, layout.sharding),
        obstacle="precision {workload.precision.name} needs a loop of its own: a probe keeps "
        "weights, gradients and states in one dtype, or fp32 masters and states beside 16-bit "
        "weights, and casts by autocast or where FSDP2 gathers",
        source=_LOOP,
    ),
)

SERVING = (
    Rule(
        require=is_in(workload.engine, Engine.TRANSFORMERS),
        obstacle="a probe serves with engine transformers, not {workload.engine}",
        source=_LOOP,
    ),
    Rule(
        require=is_in(workload.quantization, Quantization.NONE),
        obstacle="a probe runs unquantised weights, not {workload.quantization}",
        source=_MODELS,
    ),
    Rule(
        require=is_in(workload.num_beams, 1),
        obstacle="a probe decodes one beam, not {workload.num_beams}",
        source=_LOOP,
    ),
    Rule(
        require=is_not_in(workload.cache, Cache.PAGED),
        obstacle="a probe serves from transformers' own caches: cache dynamic or static",
        source=_LOOP,
    ),
    Rule(
        require=is_absent(workload.engine_version),
        obstacle="a probe runs the version that its worker has installed, not "
        "{workload.engine_version}: leave it out",
        source=_LOOP,
    ),
    Rule(
        require=is_absent(workload.speculative),
        obstacle="a probe runs one model, without tokens guessed ahead",
        source=_LOOP,
    ),
    _make_dtype_rule(workload.weight_dtype),
    Rule(
        require=is_same(workload.kv_cache_dtype, workload.weight_dtype),
        obstacle="a probe keeps its cache in the weights' dtype {workload.weight_dtype}, not "
        "{workload.kv_cache_dtype}",
        source=_LOOP,
    ),
)

SERVED_MODELS = (
    Rule(
        require=any_of(
            is_true(model.decoder), all_of(is_false(model.has_encoder), is_false(model.has_images))
        ),
        field="model",
        obstacle="a probe serves models of text in one stack, and {model.family} is none: train it",
        source=_LOOP,
    ),
    Rule(
        require=all_of(is_in(workload.num_images, None, 0), is_absent(workload.inputs)),
        field=workload.num_images.path,
        obstacle="a probe serves text alone: leave num_images out, or ask to train with images",
        source=_LOOP,
    ),
)
"""What is asked of a model that a probe should serve."""
