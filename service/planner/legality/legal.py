"""Legality of a workload and a layout in its framework or engine.

A violation lists what could run instead.
"""

from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import Workload
from service.planner.legality.conditions import list_allowed_values
from service.planner.legality.facts import Case, ModelFacts, collect_facts
from service.planner.legality.rules import Rule, get_rule_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """The first rule that a configuration breaks.

    ``allowed`` lists values of ``field``, where the rule says any.

    ``modelled`` False: nobody could run it. True: it may run, but the estimator has no term for it.
    """

    reason: str
    field: str
    allowed: tuple[object, ...]
    source: str
    modelled: bool


def find_violation(model: Architecture, workload: Workload, layout: Layout) -> Violation | None:
    """Return the rule that a configuration breaks, if any."""
    return Legality(model).check(workload, layout)


def list_shardings(workload: Workload) -> tuple[tuple[Sharding, int], ...]:
    """Return the sharding implementations and stages of a workload.

    A search has to try them.
    """
    return tuple(
        (strategy.sharding, stage)
        for strategy in get_rule_table(workload).sharding_options
        for stage in strategy.zero_stages
    )


class Legality:
    """Legality rules of all frameworks for one model.

    Rules that cannot apply to the model are dropped once.
    """

    def __init__(self, model: Architecture) -> None:
        """Collect the facts of the model."""
        self.facts = collect_facts(model)

    def check(self, workload: Workload, layout: Layout) -> Violation | None:
        """Return the first rule that a configuration breaks."""
        return self.get_layout_rules(workload).check(layout)

    def get_layout_rules(self, workload: Workload) -> "LayoutRules":
        """Return the layout rules of one workload.

        A caller with many layouts has the other rules checked once.
        """
        return LayoutRules(self.facts, workload)


class LayoutRules:
    """Legality rules that are left once model and workload are known."""

    def __init__(self, facts: ModelFacts, workload: Workload) -> None:
        """Check the rules that no layout changes."""
        self.facts, self.workload = facts, workload
        case = Case(facts, workload, Layout())
        rules = [rule for rule in get_rule_table(workload).rules if _can_apply(rule, case)]
        decided = [rule for rule in rules if not rule.depends]
        self.violation = next(
            (_make_violation(rule, case) for rule in decided if not rule.holds(case)), None
        )
        """The rule that the workload breaks in every layout."""
        self._rules = tuple(
            (rule.applies if rule.situational else None, rule) for rule in rules if rule.depends
        )

    def check(self, layout: Layout) -> Violation | None:
        """Return the first rule that a layout breaks."""
        if self.violation is not None:
            return self.violation
        case = Case(self.facts, self.workload, layout)
        for applies, rule in self._rules:
            if (applies is None or applies(case)) and not rule.holds(case):
                return _make_violation(rule, case)
        return None

    def list_degrees(self, layout: Layout, name: str, *, max_degree: int) -> tuple[int, ...]:
        """Return the legal values of one degree up to ``max_degree``.

        Everything else stays as it is.
        """
        return tuple(
            value for value in range(1, max_degree + 1) if self._is_legal_with(layout, name, value)
        )

    def _is_legal_with(self, layout: Layout, name: str, value: int) -> bool:
        try:
            changed = replace(layout, **{name: value})  # type: ignore[arg-type]  # a degree is an integer
        except InvalidInputError:
            return False
        return self.check(changed) is None


def _can_apply(rule: Rule, case: Case) -> bool:
    """Return whether a rule can apply in any layout."""
    return rule.applies is None or rule.situational or rule.applies(case)


def _make_violation(rule: Rule, case: Case) -> Violation:
    reason = rule.reason.format(model=case.model, workload=case.workload, layout=case.layout)
    return Violation(
        reason=reason,
        field=rule.field,
        allowed=list_allowed_values(rule.require, rule.field, case),
        source=rule.source,
        modelled=rule.modelled,
    )
