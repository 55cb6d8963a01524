"""Rules of the layouts that transformers can spread a model over."""

from service.estimator.model.tensor_parallel.split_plan import list_divisors
from service.estimator.rules.grammar.conditions import (
    any_of,
    divides,
    is_above,
    is_absent,
    is_false,
    is_in,
    is_not_in,
    is_same,
    is_true,
)
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import layout, model
from service.estimator.rules.grammar.rule import Refusal, Rule, Topic, invalid, unmodelled
from service.estimator.values.layout import Sharding

_ONE_STAGE = (
    (
        layout.pipeline_parallel,
        "transformers does not train through a pipeline; framework megatron does",
        "one stage: transformers does not train through a pipeline, framework megatron does",
    ),
    (
        layout.expert_parallel,
        "1 in framework transformers; framework megatron spreads experts",
        "1 in framework transformers; framework megatron spreads experts",
    ),
    (
        layout.virtual_pipeline_stages,
        "1 in framework transformers; framework megatron interleaves stages",
        "1 in framework transformers; framework megatron interleaves stages",
    ),
)
"""Degrees that transformers has not, with what the planner and the estimator say of each."""
ONE_SEQUENCE = Rule(
    require=is_in(layout.context_parallel, 1),
    topic=Topic.ONE_STAGE,
    refusal=unmodelled("context_parallel {layout.context_parallel}", "1 in serving"),
    reason="context_parallel {layout.context_parallel}: transformers serves whole sequences",
)
_COLUMNS = "transformers 5.23 integrations/tensor_parallel.py, colwise and rowwise"
PLANNED = is_in(
    model.family,
    *("cohere", "cohere2", "gemma", "gemma2", "gemma3_text", "glm", "glm4", "glm4_moe"),
    *("gpt_neox", "granite", "llama", "ministral", "mistral", "mixtral", "nemotron", "olmo"),
    *("olmo2", "olmoe", "phi", "phi3", "qwen2", "qwen3", "qwen3_moe", "smollm3", "starcoder2"),
)
"""Families whose layers are all split by a ``base_model_tp_plan`` in transformers 5.23."""


def _refuse_heads(case: Case) -> str:
    heads, ranks = case.model.num_attention_heads, case.layout.tensor_parallel
    what = f"tensor_parallel {ranks} does not divide {heads} attention heads"
    return f"{what}; {list_divisors(heads)}"


def _refuse_inner(case: Case) -> str:
    inner, ranks = case.model.intermediate_size, case.layout.tensor_parallel
    what = f"{inner} inner features of an MLP (intermediate_size)"
    return f"tensor_parallel {ranks} does not divide {what}; {list_divisors(inner)}"


def _refuse_kv_heads(rule: str, case: Case) -> str:
    heads, ranks = case.model.num_key_value_heads, case.layout.tensor_parallel
    what = f"tensor_parallel {ranks} and {heads} key and value heads: it must {rule}"
    return f"{what}; {list_divisors(heads)}"


REFUSES_HEADS = invalid(_refuse_heads)
REFUSES_INNER = invalid(_refuse_inner)
REFUSES_KV_HEADS = invalid(lambda case: _refuse_kv_heads("divide them", case))
REFUSES_SHARED_KV_HEADS = invalid(
    lambda case: _refuse_kv_heads("divide them or be a multiple of them", case)
)
KEEPS_A_STATE = Rule(
    when=is_true(model.recurrent),
    require=is_in(layout.tensor_parallel, 1),
    topic=Topic.RECURRENT,
    refusal=unmodelled(
        "tensor_parallel of {model.family}, whose mixers keep a state", "tensor_parallel 1"
    ),
    reason="layers of {model.family} keep a state, which no ranks share here",
    source="no term for a state that ranks share",
)


def _get_name(path: str) -> str:
    return path.rpartition(".")[2]


_DEGREES = (
    *(
        Rule(
            require=is_in(degree, 1),
            topic=Topic.ONE_STAGE,
            refusal=unmodelled(f"{_get_name(degree.path)} {{{degree.path}}}", instead),
            reason=f"{_get_name(degree.path)} {{{degree.path}}}: {reason}",
            source="transformers 5.23 trainer.py; accelerate 1.15 parallelism_config.py",
        )
        for degree, reason, instead in _ONE_STAGE
    ),
    Rule(
        require=any_of(
            is_absent(layout.expert_tensor_parallel),
            is_same(layout.expert_tensor_parallel, layout.tensor_parallel),
        ),
        topic=Topic.ONE_STAGE,
        refusal=Refusal(
            text="expert_tensor_parallel {layout.expert_tensor_parallel}",
            modelled=lambda case: [str(case.layout.tensor_parallel)],
        ),
        reason="experts are split as all layers are",
        source="transformers 5.23, base_model_tp_plan",
    ),
    Rule(
        require=divides(layout.tensor_parallel, model.num_attention_heads),
        topic=Topic.DIVISIBLE,
        refusal=REFUSES_HEADS,
        reason="tensor_parallel {layout.tensor_parallel} does not divide "
        "{model.num_attention_heads} attention heads",
        source=_COLUMNS,
    ),
    Rule(
        require=divides(layout.tensor_parallel, model.intermediate_size),
        topic=Topic.DIVISIBLE,
        refusal=REFUSES_INNER,
        reason="tensor_parallel {layout.tensor_parallel} does not divide the MLP's "
        "{model.intermediate_size} inner features",
        source=_COLUMNS,
    ),
    Rule(
        require=divides(layout.tensor_parallel, model.num_key_value_heads),
        topic=Topic.DIVISIBLE,
        refusal=REFUSES_KV_HEADS,
        reason="tensor_parallel {layout.tensor_parallel} does not divide "
        "{model.num_key_value_heads} key and value heads",
        source="transformers 5.23 integrations/tensor_parallel.py: heads are never replicated",
    ),
    KEEPS_A_STATE,
)
_UNITS = (
    Rule(
        when=is_not_in(layout.sharding, Sharding.FSDP2),
        require=is_false(layout.shard_embeddings_separately),
        topic=Topic.SHARDING,
        refusal=unmodelled(
            "shard_embeddings_separately true of {layout.sharding} ranks", "sharding fsdp2"
        ),
        reason="units of their own are FSDP2's",
        source="torch 2.13 distributed/fsdp/_fully_shard, fully_shard per module",
    ),
    Rule(
        require=any_of(
            is_absent(layout.shard_size),
            is_same(layout.shard_size, (layout.data_parallel, layout.context_parallel)),
            is_in(layout.sharding, Sharding.FSDP2),
        ),
        topic=Topic.SHARDING,
        refusal=unmodelled(
            "shard_size {layout.shard_size} of {layout.sharding} ranks", "sharding fsdp2"
        ),
        reason="shard_size {layout.shard_size} on {layout.sharding} ranks",
        source="torch 2.13 fully_shard on a two-dimensional mesh: hybrid sharding",
    ),
)


def make_layout_rules(plan: Refusal) -> tuple[Rule, ...]:
    """Return the rules of layouts.

    ``plan`` is the refusal of families without a plan for tensors.
    """
    return (
        *_DEGREES,
        Rule(
            when=is_above(layout.tensor_parallel, 1),
            require=PLANNED,
            field=layout.tensor_parallel.path,
            topic=Topic.PLAN,
            refusal=plan,
            reason="{model.family} has no plan that splits all of its layers",
            source="transformers 5.23 base_model_tp_plan of each configuration",
        ),
        *_UNITS,
    )
