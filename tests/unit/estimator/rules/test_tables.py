"""The table of rules: who is asked what, in which words, and that each rule can be broken."""

from collections.abc import Iterator
from functools import cache, lru_cache
from operator import attrgetter

import pytest

from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.rule import Rule, RuleTable, fill_in
from service.estimator.rules.runners import ENGINES, FRAMEWORKS
from service.estimator.rules.tables.hardware import MADE_FOR, NEEDS
from service.estimator.rules.tables.probes import loops, ranks
from service.estimator.rules.tables.serving.own_engines import (
    ENGINE_LENGTHS,
    TENSORRT_LLM_RANKS,
)
from service.estimator.rules.tables.serving.transformers import SERVE_ENCODERS, SERVE_TRANSFORMERS
from service.estimator.rules.tables.training.torchtitan import TORCHTITAN_MODELS
from service.estimator.rules.tables.training.transformers import STEP_BY_OPERATION
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.workload import Engine, Framework
from tests.unit.estimator.rules.cases import list_servings, list_trainings

TABLES = (*FRAMEWORKS.values(), *ENGINES.values())
PROBED = (
    *(*ranks.RANKS, *ranks.TRAINING_RANKS, *ranks.SERVING_RANKS),
    *(*loops.TRAINING, *loops.SERVING, *loops.SERVED_MODELS),
)

_QUOTED = ("model", "workload", "layout")


@lru_cache(typed=True)  # an engine and a framework have one name
def _list_cases(runner: Framework | Engine) -> tuple[Case, ...]:
    return tuple(list_trainings(runner) if isinstance(runner, Framework) else list_servings(runner))


def _list_askers() -> Iterator[tuple[tuple[Rule, ...], Framework | Engine]]:
    """Yield what each asker goes through in its order, and who runs what it is asked about."""
    for framework, table in FRAMEWORKS.items():
        yield table.reasons, framework
        yield table.refusals, framework
    for engine, table in ENGINES.items():
        yield table.reasons, engine
        if engine is not Engine.TRANSFORMERS:
            yield table.refusals, engine
    yield TORCHTITAN_MODELS.refusals, Framework.TORCHTITAN
    yield TENSORRT_LLM_RANKS.refusals, Engine.TENSORRT_LLM
    yield ENGINE_LENGTHS.refusals, Engine.VLLM


def _list_all_rules() -> dict[int, Rule]:
    own = (rule for table in TABLES for rule in (*table.beside, *table.rules))
    return {id(rule): rule for rule in (*own, *SERVE_ENCODERS.rules, *PROBED)}


def _find_first(rules: tuple[Rule, ...], case: Case) -> Rule | None:
    return next((rule for rule in rules if not rule.allows(case)), None)


def _allow(rules: list[Rule], case: Case) -> bool:
    try:
        return all(rule.allows(case) for rule in rules)
    except InvalidInputError:
        return False  # it is asked of no case that an earlier rule forbids


@cache
def _collect_first_broken() -> dict[int, tuple[Rule, Case]]:
    """Return every rule that is the first one broken by some case, with that case."""
    first: dict[int, tuple[Rule, Case]] = {}

    def collect(rules: tuple[Rule, ...], cases: tuple[Case, ...]) -> None:
        missing = [rule for rule in rules if id(rule) not in first]
        for case in cases:
            if _allow(missing, case):
                continue  # who forbids it first has a case already
            rule = _find_first(rules, case)
            if rule is not None and id(rule) not in first:
                first[id(rule)] = rule, case
                missing = [other for other in missing if other is not rule]

    for rules, runner in _list_askers():
        collect(rules, _list_cases(runner))
    served = _list_cases(Engine.TRANSFORMERS)
    collect(SERVE_TRANSFORMERS.refusals, tuple(case for case in served if case.model.decoder))
    collect(SERVE_ENCODERS.refusals, tuple(case for case in served if not case.model.decoder))
    return first


@pytest.mark.parametrize("table", TABLES, ids=[table.name for table in TABLES])
def test_everybody_has_rules_and_says_who_shards(table: RuleTable) -> None:
    """Nobody is left out, and what a search varies comes from the table."""
    assert table.reasons
    assert table.refusals
    assert all(option.source for option in table.sharding_options)


def test_every_rule_names_a_source_and_somebody_it_speaks_to() -> None:
    """A rule that nobody is told about would be none."""
    rules = _list_all_rules().values()

    assert all(rule.source for rule in rules)
    assert all(rule.refusal or rule.reason or rule.obstacle for rule in rules)
    assert all(rule.topic is not None for rule in rules if rule.refusal is not None)
    assert all(need.source and need.instead and (need.cuda or need.gfx) for need in NEEDS)
    assert all(makers.source and makers.vendors for makers in MADE_FOR.values())


def test_every_refusal_is_in_the_order_of_some_runner() -> None:
    """A topic that no runner lists would never be asked about."""
    tables = (*TABLES, SERVE_ENCODERS, STEP_BY_OPERATION, TORCHTITAN_MODELS)
    tables = (*tables, TENSORRT_LLM_RANKS, ENGINE_LENGTHS)
    ordered = {id(rule) for table in tables for rule in table.refusals}

    assert [
        rule.field
        for key, rule in _list_all_rules().items()
        if rule.refusal is not None and key not in ordered
    ] == []


def test_every_rule_can_be_the_one_that_a_question_breaks() -> None:
    """For each there is a question whose answer it decides: none is misspelt, or said twice."""
    first = _collect_first_broken()

    assert [
        (rule.field, rule.reason)
        for key, rule in _list_all_rules().items()
        if rule.obstacle is None and key not in first
    ] == []


def test_words_about_a_broken_rule_quote_the_question() -> None:
    """No brace is left over, for nobody who is told."""
    for rule, case in _collect_first_broken().values():
        errors = [rule.make_refusal(case)] if rule.refusal is not None else []
        reasons = [fill_in(rule.reason, case)] if rule.reason is not None else []

        assert all(error.field for error in errors)
        texts = (*reasons, *(error.message for error in errors))
        assert not any(f"{{{part}" in text for text in texts for part in _QUOTED)


def test_rules_speak_of_fields_that_exist() -> None:
    """A rule about a misspelt field would fail where it is asked."""
    for rule, case in _collect_first_broken().values():
        for path in rule.reads - {"workload.sequence_length", "workload.prompt_tokens"}:
            attrgetter(path)(case)


def test_estimator_and_planner_break_the_same_rules() -> None:
    """What is for both is one rule: its verdict is one, and only the words differ."""
    shared = [rule for table in TABLES for rule in table.refusals if rule.reason is not None]

    assert len(shared) > 150
    assert all(rule in table.reasons for table in TABLES for rule in table.refusals if rule.reason)
