"""What is legal once is not asked again, and what is not is refused as often as it is asked."""

from dataclasses import replace

import pytest

from service.estimator.rules.checks import Checks, check
from service.estimator.rules.grammar.conditions import is_at_most, is_in, satisfies
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import workload
from service.estimator.rules.grammar.rule import Rule, RuleTable, Topic, invalid
from service.estimator.rules.tables.training.transformers import TRAIN_TRANSFORMERS
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Loss
from tests.builders import a_gpt2, a_model, a_training

ALONE = Layout()


def test_words_that_were_legal_are_asked_once_and_sizes_every_time() -> None:
    """A new batch of a known question costs the rules about its size alone."""
    asked: list[str] = []

    def note(case: Case) -> bool:
        asked.append(case.model.family)
        return True

    rules = (
        Rule(
            require=satisfies(note, workload.loss),
            topic=Topic.LOSS,
            refusal=invalid("never"),
        ),
        Rule(
            require=is_at_most(workload.sequence_length, 64),
            topic=Topic.SEQUENCE,
            refusal=invalid("{workload.sequence_length} are too many"),
        ),
    )
    table = RuleTable(name="small", rules=rules, topics=(Topic.LOSS, Topic.SEQUENCE))
    checks = Checks(table, a_model())

    checks.check(a_training(sequence_length=32), ALONE)
    checks.check(a_training(sequence_length=64), ALONE)

    assert len(asked) == 1
    with pytest.raises(InvalidInputError, match="65 are too many"):
        checks.check(a_training(sequence_length=65), ALONE)


def test_rules_that_a_model_settles_are_not_asked() -> None:
    """A decoder without images is asked nothing about their room, wherever they come from."""
    checks = Checks(TRAIN_TRANSFORMERS, a_model())

    assert len(checks._rules) < len(TRAIN_TRANSFORMERS.refusals) - 20  # noqa: SLF001 - what is left


def test_what_is_refused_once_is_refused_again() -> None:
    """Only what is legal is remembered."""
    checks, chunked = Checks(TRAIN_TRANSFORMERS, a_model()), a_training(loss=Loss.CHUNKED)

    for _ in range(2):
        with pytest.raises(NotModelledError, match="tensor-parallel ranks"):
            checks.check(chunked, Layout(tensor_parallel=2))


def test_topics_decide_which_rule_is_first() -> None:
    """The estimator asks in the order of a runner's topics, whatever the order of the rows."""
    late = Rule(
        require=is_in(workload.loss, Loss.CHUNKED), topic=Topic.LOSS, refusal=invalid("late")
    )
    early = replace(late, topic=Topic.OPTIMIZER, refusal=invalid("early"))
    table = RuleTable(name="two", rules=(late, early), topics=(Topic.OPTIMIZER, Topic.LOSS))

    with pytest.raises(InvalidInputError, match="early"):
        check(table, a_model(), a_training(), ALONE)


def test_sizes_are_refused_on_their_own() -> None:
    """A model with 1,024 learned positions has no more in a question that was legal before."""
    checks = Checks(TRAIN_TRANSFORMERS, a_gpt2())
    checks.check(a_training(sequence_length=64), ALONE)

    with pytest.raises(InvalidInputError, match="learned positions"):
        checks.check_sizes(a_training(sequence_length=5000), ALONE)
