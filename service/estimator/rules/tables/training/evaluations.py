"""Rules of an evaluation between steps, which is that of transformers' Trainer."""

from service.estimator.model.library_versions import fills_cache, parse_transformers_release
from service.estimator.rules.grammar.conditions import (
    Condition,
    all_of,
    is_above,
    is_absent,
    is_at_most,
    is_false,
    is_given,
    is_not_in,
    satisfies,
)
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import layout, model, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.models import get_training
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.losses import Loss, Trainer

_EVALUATES = is_given(workload.evaluation)
_FIELD = f"{workload.evaluation.path}.batch_size"
_WITHOUT = "requests without evaluation"


def _leaves_cache(case: Case) -> bool:
    """Return whether a release makes no key/value cache in an evaluation."""
    try:
        release = parse_transformers_release(get_training(case).framework_version)
    except InvalidInputError:
        return True  # Another rule says that it is no release.
    return not fills_cache(release)


def _agrees_on_loss(case: Case) -> bool:
    """Return whether its loss is a step's, or over whole logits."""
    training = get_training(case)
    evaluation = training.evaluation
    loss = None if evaluation is None else evaluation.loss
    if loss is None or loss is training.loss:
        return True
    return loss is Loss.FULL_LOGITS and training.trainer is Trainer.SUPERVISED


def _keeps_nothing(case: Case) -> bool:
    evaluation = get_training(case).evaluation
    return evaluation is None or not evaluation.kept_batches


def _has_positions(case: Case) -> bool:
    """Return whether each token of an evaluated sequence has a position."""
    limit = _get_limit(case)
    return not limit or _get_length(case) <= limit


def _get_limit(case: Case) -> int:
    return case.model.learned_positions or case.model.limited_positions


def _get_length(case: Case) -> int:
    evaluation = get_training(case).evaluation
    return 0 if evaluation is None else evaluation.sequence_length or 0


def _refuse_length(case: Case) -> str:
    return (
        f"{_get_length(case)} tokens of an evaluation, but {case.model.family} has learned "
        f"positions for {_get_limit(case)}"
    )


def _refuse(
    require: Condition, wording: str, *modelled: str, when: tuple[Condition, ...] = ()
) -> Rule:
    return Rule(
        when=all_of(_EVALUATES, *when),
        require=require,
        field=_FIELD,
        topic=Topic.LOSS,
        refusal=unmodelled(f"evaluation {wording}", *modelled, _WITHOUT),
        reason=f"evaluation {wording}",
        source="transformers 5.23 trainer.py, evaluation_loop and prediction_step",
    )


EVALUATIONS = (
    _refuse(
        is_not_in(workload.trainer, Trainer.GRPO),
        "of trainer {workload.trainer}, which generates",
        "another trainer",
    ),
    _refuse(
        is_not_in(workload.loss, Loss.CHUNKED, Loss.FLASH_CROSS_ENTROPY),
        "with loss {workload.loss}",
        "another loss",
    ),
    Rule(
        when=_EVALUATES,
        require=satisfies(_agrees_on_loss, workload.evaluation, workload.loss, workload.trainer),
        field=f"{workload.evaluation.path}.loss",
        topic=Topic.LOSS,
        refusal=invalid(
            "an evaluation's loss is that of a step, or of trainer supervised full_logits"
        ),
        source="liger-kernel 0.8 transformers/model/llama.py, lce_forward",
    ),
    _refuse(
        satisfies(_keeps_nothing, workload.evaluation),
        "whose logits are kept, of trainer {workload.trainer}",
        "kept_batches 0",
        when=(is_not_in(workload.trainer, Trainer.SUPERVISED),),
    ),
    _refuse(
        is_at_most(layout.context_parallel, 1),
        "of sequences that ranks share",
        "context_parallel 1",
    ),
    _refuse(is_false(model.recorded), "of a recorded model", "families that are read"),
    _refuse(
        satisfies(_leaves_cache, workload.framework_version),
        "of transformers before 5.0, which fills a key/value cache",
        "framework_version 5.0 and later",
    ),
    _refuse(
        satisfies(_keeps_nothing, workload.evaluation),
        "whose logits are kept, of tensor-parallel ranks",
        "kept_batches 0",
        when=(is_above(layout.tensor_parallel, 1),),
    ),
    Rule(
        when=_EVALUATES,
        require=satisfies(_has_positions, workload.evaluation),
        field=f"{workload.evaluation.path}.sequence_length",
        topic=Topic.SEQUENCE,
        refusal=invalid(_refuse_length),
        source="the model's position table (max_position_embeddings)",
    ),
)


def make_refusal(name: str) -> Rule:
    """Return the rule of a framework whose evaluation is not modelled."""
    return Rule(
        require=is_absent(workload.evaluation),
        field=_FIELD,
        topic=Topic.LOSS,
        refusal=unmodelled(f"evaluation of framework {name}", "framework transformers", _WITHOUT),
        reason=f"evaluation of framework {name}",
    )
