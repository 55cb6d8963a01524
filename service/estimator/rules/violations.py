"""Violations of rules, in the planner's words."""

from dataclasses import dataclass

from service.estimator.model.architecture import Architecture
from service.estimator.rules.checks import select_rules
from service.estimator.rules.grammar.facts import Case, collect_facts
from service.estimator.rules.grammar.rule import Rule, fill_in
from service.estimator.rules.runners import get_rule_table
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """The first rule that a configuration breaks."""

    reason: str
    field: str
    rule: Rule


def find_violation(model: Architecture, workload: Workload, layout: Layout) -> Violation | None:
    """Return the rule that a configuration breaks, if any."""
    return Legality(model).find_violation(workload, layout)


class Legality:
    """Rules of all runners for one model.

    Those that cannot apply to it are dropped once.
    """

    def __init__(self, model: Architecture) -> None:
        """Collect the facts of the model."""
        self._facts = collect_facts(model)
        self._rules: dict[str, tuple[Rule, ...]] = {}

    def find_violation(self, workload: Workload, layout: Layout) -> Violation | None:
        """Return the first rule that a configuration breaks.

        What the workload breaks in every layout comes first.
        """
        case = Case(self._facts, workload, layout)
        for rule in self._get_rules(workload):
            if not rule.allows(case):
                assert rule.reason is not None  # noqa: S101 - the planner asks no others
                return Violation(reason=fill_in(rule.reason, case), field=rule.field, rule=rule)
        return None

    def _get_rules(self, workload: Workload) -> tuple[Rule, ...]:
        table = get_rule_table(workload)
        if table.name not in self._rules:
            rules = sorted(select_rules(table.reasons, self._facts), key=_reads_layout)
            self._rules[table.name] = tuple(rules)
        return self._rules[table.name]


def _reads_layout(rule: Rule) -> bool:
    return any(path.startswith("layout.") for path in rule.reads)
