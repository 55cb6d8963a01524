"""Legality rules for searches, each checked as early as possible.

A rule is checked as soon as everything that it refers to is known, and never when it is settled
already.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import cast

from service.estimator.rules.grammar.conditions import Predicate, settle
from service.estimator.rules.grammar.facts import Case, ModelFacts
from service.estimator.rules.grammar.rule import Rule
from service.estimator.rules.runners import get_rule_table
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload

DEGREES = frozenset(
    f"layout.{name}_parallel" for name in ("tensor", "pipeline", "context", "expert")
)
SPLIT = DEGREES | {
    "layout.sharding",
    "layout.sequence_parallel",
    "layout.pipeline_split",
    "layout.context_parallel_method",
}
ALLOWED = frozenset(
    {"workload.offload.optimizer", "workload.offload.parameters", "workload.quantization"}
)
"""Fields that stay as they are unless a question allows more."""
_COUNTED = frozenset({"layout.shards", "layout.num_gpus"})
"""What a layout derives from its ranks and degrees."""
_RANKS = _COUNTED | {"layout.data_parallel"}
PLACED = SPLIT | ALLOWED | _RANKS | {"layout.zero_stage"}
_SIZES = frozenset({"workload.micro_batch_size", "workload.gradient_accumulation_steps"})
VARIED = PLACED | _SIZES | {"workload.activation_checkpointing"}
"""What a search varies: the degrees one by one, then together, then over ranks and stages, then by
batch.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenRule:
    """A rule that depends on something that the search varies.

    ``applies`` None is always, ``allowed_values`` lists all that a rule of one name allows.
    """

    names: frozenset[str]
    applies: Predicate | None
    holds: Predicate
    allowed_values: tuple[object, ...] | None

    def allows(self, case: Case) -> bool:
        """Return whether a case keeps the rule."""
        return (self.applies is not None and not self.applies(case)) or self.holds(case)


def _allows_all(rules: Iterable[_OpenRule], case: Case) -> bool:
    """Return whether a case keeps every rule.

    It is a loop, because a search asks thousands of times.
    """
    for rule in rules:  # noqa: SIM110 - a generator would cost more than what it asks
        if not rule.allows(case):
            return False
    return True


class SearchRules:
    """Legality rules of one model and workload in a search.

    Rules that nothing varied decides are settled here.
    """

    def __init__(
        self,
        facts: ModelFacts,
        workload: Workload,
        layout: Layout,
        *,
        stays: frozenset[str] = frozenset(),
    ) -> None:
        """Drop the settled rules.

        ``layout`` holds the fields that are not varied, and ``stays`` names more of them.
        """
        self._facts, self._workload = facts, workload
        self._layout_fields: Mapping[str, object] = {
            field.name: getattr(layout, field.name) for field in fields(layout)
        }
        rules = tuple(
            _iter_open_rules(
                get_rule_table(workload).reasons, Case(facts, workload, layout), VARIED - stays
            ),
        )
        self._degree_rules = {
            name: tuple(rule for rule in rules if rule.names == {name}) for name in DEGREES
        }
        several = tuple(
            rule for rule in rules if not (len(rule.names) == 1 and rule.names <= DEGREES)
        )
        self._split_rules = tuple(rule for rule in several if rule.names <= SPLIT)
        self._layout_rules = tuple(
            rule for rule in several if rule.names <= PLACED and not rule.names <= SPLIT
        )
        self._unranked_rules = tuple(rule for rule in self._layout_rules if not rule.names & _RANKS)
        self._batch_rules = tuple(rule for rule in several if not rule.names <= PLACED)
        self._proposed_split = SimpleNamespace(**self._layout_fields)  # its ranks are not known yet
        self._split_case = Case(facts, workload, cast("Layout", self._proposed_split))
        self.sizes_matter = any(rule.names & _SIZES for rule in self._batch_rules)
        """Whether a rule speaks of micro batches or of accumulation."""
        self.ranks_matter = any(rule.names & _RANKS for rule in self._batch_rules)
        """Whether a rule about batches speaks of data-parallel ranks."""

    def list_degrees(self, name: str, values: Iterable[int]) -> tuple[int, ...]:
        """Return the values of one degree that its own rules allow."""
        rules, proposed = (
            self._degree_rules[f"layout.{name}"],
            SimpleNamespace(**self._layout_fields),
        )
        case = Case(
            self._facts, self._workload, cast("Layout", proposed)
        )  # other degrees may contradict it still
        legal_values = []
        listed = [rule.allowed_values for rule in rules if rule.allowed_values is not None]
        for value in values if not listed else sorted(frozenset(values).intersection(*listed)):
            setattr(proposed, name, value)
            if _allows_all(rules, case):
                legal_values.append(value)
        return tuple(legal_values)

    def allows_split(self, split_fields: Mapping[str, object]) -> bool:
        """Return whether degrees are legal together with a sharding."""
        if not self._split_rules:
            return True
        self._proposed_split.__dict__.update(split_fields)
        return _allows_all(self._split_rules, self._split_case)

    def allows_layout(self, workload: Workload, layout: Layout) -> bool:
        """Return whether a layout is legal.

        The rules about its degrees are not checked again.
        """
        case = Case(self._facts, workload, layout)
        return _allows_all(self._layout_rules, case)

    def allows_some_ranks(self, workload: Workload, layout: Layout) -> bool:
        """Return whether a layout may be legal on another number of ranks."""
        return _allows_all(self._unranked_rules, Case(self._facts, workload, layout))

    def allows_batch(self, workload: Workload, layout: Layout) -> bool:
        """Return whether a batch and a recomputation are legal.

        The rules about the layout are not checked again.
        """
        case = Case(self._facts, workload, layout)
        return _allows_all(self._batch_rules, case)


def _iter_open_rules(
    rules: Iterable[Rule], case: Case, varied: frozenset[str]
) -> Iterator[_OpenRule]:
    """Yield the rules that something varied may break.

    A rule that is broken in any case is yielded too.
    """
    for rule in rules:
        applies = True if rule.when is None else settle(rule.when, case, varied)
        if applies is False or settle(rule.require, case, varied) is True:
            continue
        yield _OpenRule(
            names=rule.reads & VARIED,
            applies=None if rule.when is None else rule.when.holds,
            holds=rule.require.holds,
            allowed_values=rule.require.values if rule.when is None else None,
        )
