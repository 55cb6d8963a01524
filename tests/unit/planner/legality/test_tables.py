"""The tables themselves: every rule can be read, says why, and speaks of things that exist."""

from operator import attrgetter

import pytest

from service.estimator.values.layout import Layout
from service.estimator.values.workload import (
    Engine,
    Framework,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.planner.legality.conditions import collect_paths
from service.planner.legality.facts import Case, collect_facts
from service.planner.legality.rules import Rule, get_rule_table
from tests.unit.planner.legality.samples import model

TRAININGS: tuple[Workload, ...] = tuple(
    TrainWorkload(sequence_length=512, framework=framework, method=Method.LORA, lora=Lora())
    for framework in Framework
)
SERVINGS: tuple[Workload, ...] = tuple(
    ServeWorkload(num_sequences=1, prompt_tokens=512, engine=engine) for engine in Engine
)


def _cases() -> list[tuple[Case, Rule]]:
    facts = collect_facts(model("mixtral-8x7b"))
    return [
        (Case(facts, workload, Layout()), rule)
        for workload in (*TRAININGS, *SERVINGS)
        for rule in get_rule_table(workload).rules
    ]


@pytest.mark.parametrize("workload", [*TRAININGS, *SERVINGS])
def test_every_framework_and_engine_has_a_table(workload: Workload) -> None:
    """Nobody is left out, and everybody says how states are sharded."""
    stack = get_rule_table(workload)

    assert stack.rules
    assert stack.sharding_options
    assert all(way.source for way in stack.sharding_options)


def test_rules_speak_of_fields_that_exist() -> None:
    """A rule about a misspelt field would never be broken, and so would be no rule."""
    for case, rule in _cases():
        for path in collect_paths(rule.require) | {rule.field}:
            attrgetter(path)(case)


def test_rules_say_why_in_words_and_from_where() -> None:
    """A reason quotes the case, without a brace left over; a source is named."""
    for case, rule in _cases():
        said = rule.reason.format(model=case.model, workload=case.workload, layout=case.layout)

        assert "{" not in said
        assert rule.source
