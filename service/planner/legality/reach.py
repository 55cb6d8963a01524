"""The rules as a search asks them: each as soon as everything that it speaks of is known, and none that is settled already."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any, cast

from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.planner.legality.conditions import Test, paths_of, read_condition
from service.planner.legality.facts import Case, ModelFacts
from service.planner.legality.rules import Rule, stack_of

DEGREES = frozenset(f"layout.{name}_parallel" for name in ("tensor", "pipeline", "context", "expert"))
SPLIT = DEGREES | {"layout.sharding", "layout.sequence_parallel"}
ALLOWED = frozenset({"workload.offload.optimizer", "workload.offload.parameters", "workload.quantization"})
"""What stays as it is asked unless a question allows more."""
PLACED = SPLIT | ALLOWED | {"layout.data_parallel", "layout.zero_stage"}
_SIZES = frozenset({"workload.micro_batch_size", "workload.gradient_accumulation_steps"})
VARIED = PLACED | _SIZES | {"workload.activation_checkpointing"}
"""What a search varies: the degrees one by one, then together, then over ranks and stages, then by batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """A rule that something varied decides; ``applies`` None is always, ``only`` lists all that a rule of one name allows."""

    names: frozenset[str]
    applies: Test | None
    holds: Test
    only: frozenset[object] | None

    def allows(self, case: Case) -> bool:
        """Whether a case keeps the rule."""
        return (self.applies is not None and not self.applies(case)) or self.holds(case)


def _allowed(rules: Iterable[_Open], case: Case) -> bool:
    """Whether a case keeps every rule; a loop, because a search asks thousands of times."""
    for rule in rules:  # noqa: SIM110 - a generator would cost more than what it asks
        if not rule.allows(case):
            return False
    return True


class Reach:
    """What a framework lets a search combine for one model and workload; what nothing varied decides is settled here."""

    def __init__(self, facts: ModelFacts, workload: Workload, layout: Layout, *, stays: frozenset[str] = frozenset()) -> None:
        """Drop the rules that are settled; ``layout`` holds the words that are not varied, and ``stays`` names more of them."""
        self._facts, self._workload = facts, workload
        self._words: Mapping[str, object] = {field.name: getattr(layout, field.name) for field in fields(layout)}
        rules = tuple(_undecided(stack_of(workload).rules, Case(facts, workload, layout), VARIED - stays))
        self._alone = {name: tuple(rule for rule in rules if rule.names == {name}) for name in DEGREES}
        several = tuple(rule for rule in rules if not (len(rule.names) == 1 and rule.names <= DEGREES))
        self._split = tuple(rule for rule in several if rule.names <= SPLIT)
        self._placed = tuple(rule for rule in several if rule.names <= PLACED and not rule.names <= SPLIT)
        self._batched = tuple(rule for rule in several if not rule.names <= PLACED)
        self.sizes_matter = any(rule.names & _SIZES for rule in self._batched)
        """Whether a rule speaks of micro batches or of accumulation."""
        self.ranks_matter = any("layout.data_parallel" in rule.names for rule in self._batched)
        """Whether a rule about batches speaks of data-parallel ranks."""

    def degrees(self, name: str, values: Iterable[int]) -> tuple[int, ...]:
        """Return the values of one degree that no rule about it alone forbids."""
        rules, proposed = self._alone[f"layout.{name}"], SimpleNamespace(**self._words)
        case = Case(self._facts, self._workload, cast("Layout", proposed))  # other degrees may contradict it still
        found = []
        listed = [rule.only for rule in rules if rule.only is not None]
        for value in values if not listed else sorted(frozenset(values).intersection(*listed)):
            setattr(proposed, name, value)
            if _allowed(rules, case):
                found.append(value)
        return tuple(found)

    def splits(self, words: Mapping[str, object]) -> bool:
        """Whether degrees can be had together, in a way to shard."""
        if not self._split:
            return True
        proposed = SimpleNamespace(**{**self._words, **words})
        case = Case(self._facts, self._workload, cast("Layout", proposed))  # its ranks are not known yet
        return _allowed(self._split, case)

    def places(self, workload: Workload, layout: Layout) -> bool:
        """Whether a layout can be had; what has been asked of its degrees is not asked again."""
        case = Case(self._facts, workload, layout)
        return _allowed(self._placed, case)

    def runs(self, workload: Workload, layout: Layout) -> bool:
        """Whether a batch and a recomputation can be had; what has been asked of the layout is not asked again."""
        case = Case(self._facts, workload, layout)
        return _allowed(self._batched, case)


def _undecided(rules: Iterable[Rule], case: Case, varied: frozenset[str]) -> Iterator[_Open]:
    """Yield the rules that something varied may break, or that are broken whatever it is."""
    for rule in rules:
        applies = True if rule.when is None else _settled(rule.when, case, varied)
        if applies is False or _settled(rule.require, case, varied) is True:
            continue
        names = paths_of(rule.require) | (frozenset() if rule.when is None else paths_of(rule.when))
        only = frozenset(rule.require["is"]) if rule.when is None and "is" in rule.require else None
        yield _Open(names=names & VARIED, applies=rule.applies, holds=rule.holds, only=only)


def _settled(condition: Mapping[str, Any], case: Case, varied: frozenset[str]) -> bool | None:
    """Return what a condition says of every value of what is varied; None where they decide."""
    for word, decides in (("any", True), ("all", False)):
        if word in condition:
            found: bool | None = not decides
            for part in condition[word]:
                settled = _settled(part, case, varied)
                if settled is decides:
                    return decides
                found = None if settled is None else found
            return found
    return None if paths_of(condition) & varied else read_condition(condition)(case)
