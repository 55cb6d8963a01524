"""Rules of draft heads."""

from service.estimator.rules.grammar.conditions import is_in, satisfies
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.models import get_serving
from service.estimator.values.speculative import DraftHead
from service.estimator.values.workload import Engine

_FIELD = "workload.speculative.head"


def _has_head(case: Case) -> bool:
    speculative = get_serving(case).speculative
    return speculative is not None and speculative.head is not None


def _finds_predictors(case: Case) -> bool:
    """Return whether there are predictors where they are asked for."""
    speculative = get_serving(case).speculative
    if speculative is None or speculative.head is not DraftHead.MTP:
        return True
    return case.model.tree.spec.num_predictors > 0


DRAFT_HEADS = (
    Rule(
        when=satisfies(_has_head, workload.speculative),
        require=is_in(workload.engine, Engine.VLLM, Engine.SGLANG),
        field=_FIELD,
        topic=Topic.WEIGHTS,
        refusal=unmodelled(
            "a draft head on {workload.engine}",
            *("engine vllm or sglang", "a draft model, without speculative.head"),
        ),
        reason="a draft head on {workload.engine}",
        source="vLLM 0.33.0, v1/worker/gpu/spec_decode; SGLang 0.5.23, srt/speculative",
    ),
    Rule(
        require=satisfies(_finds_predictors, workload.speculative),
        field=_FIELD,
        topic=Topic.WEIGHTS,
        refusal=invalid(
            "head mtp is layers of the model's own, and the config of {model.family} names none "
            "(num_nextn_predict_layers, mtp_num_hidden_layers)"
        ),
        reason="{model.family} has no layers of multi-token prediction",
        source="vLLM 0.33.0, config/speculative.py; SGLang 0.5.23, srt/models",
    ),
)
"""What engines are asked about draft heads."""
