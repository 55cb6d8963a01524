"""Rules of Megatron-LM's own arguments."""

from service.estimator.model.families.moe.deepseek import LatentSpec
from service.estimator.rules.grammar.conditions import (
    Condition,
    all_of,
    divides,
    is_above,
    is_in,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.fields import layout, megatron, model, workload
from service.estimator.rules.grammar.rule import Refusal, Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.pipelines import draws_as_many_predictors
from service.estimator.values.losses import Loss
from service.estimator.values.megatron import MegatronOptions, TransformerImpl
from service.estimator.values.workload import Attention

_CORE = "Megatron-LM, megatron/core"
_LOCAL = is_in(megatron.transformer_impl, TransformerImpl.LOCAL)
_OTHERS = (
    "workload.megatron holds arguments of Megatron-LM, but framework is {workload.framework}; drop "
    "them, or say framework megatron"
)


def make_options_rule(topic: Topic) -> Rule:
    """Return the rule that other frameworks are given no arguments of Megatron-LM."""
    return Rule(
        require=is_in(workload.megatron, MegatronOptions()),
        topic=topic,
        refusal=invalid(_OTHERS),
        reason=_OTHERS,
        source="Megatron-LM, megatron/training/arguments.py",
    )


def _refuse_locally(require: Condition, reason: str, refusal: Refusal, source: str) -> Rule:
    """Return a rule of local layers."""
    return Rule(
        when=_LOCAL,
        require=require,
        field=megatron.transformer_impl.path,
        topic=Topic.WORDS,
        refusal=refusal,
        reason=reason,
        source=f"{_CORE}/{source}",
    )


_SCORES = "transformer_impl local runs on whole scores: say attention eager, or leave it out"
_CONTEXT = "transformer_impl local has no context_parallel"
_LATENT = "latent attention of transformer_impl local"
_HEADS = "query and key norms of transformer_impl local"
_NORM = (
    "transformer_impl local normalises by torch's RMSNorm, which refuses sequence_parallel "
    "(megatron/core/transformer/torch_norm.py)"
)
_GROUPS = (
    "transformer_impl local: tensor_parallel {layout.tensor_parallel} does not divide "
    "{model.num_key_value_heads} key and value heads"
)
_DEFERRED = "defer_embedding_wgrad_compute needs pipeline_parallel above 1"
_SAME_BITS = "loss {workload.loss} under deterministic, which allows no fused cross entropy"
_DRAWN = "the layout draws another number of multi-token prediction layers than mtp_num_layers"
_IMPL = megatron.transformer_impl

MEGATRON_OPTIONS = (
    _refuse_locally(
        is_in(workload.attention, Attention.SDPA, Attention.EAGER),
        *(_SCORES, invalid(_SCORES), "models/backends.py, LocalSpecProvider.core_attention"),
    ),
    _refuse_locally(
        is_in(layout.context_parallel, 1),
        *(_CONTEXT, invalid(_CONTEXT), "transformer/dot_product_attention.py"),
    ),
    _refuse_locally(
        satisfies(lambda case: not isinstance(case.model.tree.spec, LatentSpec), _IMPL),
        *(_LATENT, unmodelled(_LATENT, "transformer_engine"), "models/gpt/gpt_layer_specs.py"),
    ),
    _refuse_locally(
        satisfies(lambda case: not case.model.tree.spec.query_key_norm, _IMPL),
        *(_HEADS, unmodelled(_HEADS, "transformer_engine"), "models/gpt/gpt_layer_specs.py"),
    ),
    _refuse_locally(
        divides(layout.tensor_parallel, model.num_key_value_heads),
        *(_GROUPS, invalid(_GROUPS), "transformer/dot_product_attention.py"),
    ),
    Rule(
        when=all_of(_LOCAL, is_true(layout.sequence_parallel)),
        require=satisfies(lambda case: case.model.tree.spec.norm.startswith("layer"), _IMPL),
        topic=Topic.WORDS,
        refusal=invalid(_NORM),
        reason=_NORM,
        source=f"{_CORE}/transformer/torch_norm.py",
    ),
    Rule(
        when=is_true(megatron.defers_gradient),
        require=is_above(layout.pipeline_parallel, 1),
        field=megatron.defers_gradient.path,
        topic=Topic.WORDS,
        refusal=invalid(_DEFERRED),
        reason=_DEFERRED,
        source=f"{_CORE}/model_parallel_config.py",
    ),
    Rule(
        require=satisfies(draws_as_many_predictors, megatron.mtp_num_layers, layout.pipeline_split),
        topic=Topic.STAGES,
        refusal=invalid(_DRAWN),
        reason=_DRAWN,
        source=f"{_CORE}/transformer/multi_token_prediction.py, get_mtp_num_layers_to_build",
    ),
    Rule(
        when=is_true(workload.deterministic),
        require=is_in(workload.loss, Loss.FULL_LOGITS),
        topic=Topic.LOSS,
        refusal=invalid(_SAME_BITS),
        reason=_SAME_BITS,
        source="Megatron-LM, megatron/training/determinism.py",
    ),
)
