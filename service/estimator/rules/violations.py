"""Violations of rules, in the planner's words."""

from dataclasses import dataclass

from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.loading import as_loaded, explain_unpacking
from service.estimator.rules.checks import select_rules
from service.estimator.rules.grammar.facts import Case, ModelFacts, collect_facts
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
        self._model = model
        self._facts: dict[str | None, ModelFacts] = {}
        self._rules: dict[tuple[str, str | None], tuple[Rule, ...]] = {}

    def find_violation(self, workload: Workload, layout: Layout) -> Violation | None:
        """Return the first rule that a configuration breaks.

        What the workload breaks in every layout comes first.
        """
        unpacking = explain_unpacking(self._model, workload)
        case = Case(self._get_facts(workload, unpacking), workload, layout)
        for rule in self._get_rules(case, unpacking):
            if not rule.allows(case):
                assert rule.reason is not None  # noqa: S101 - the planner asks no others
                return Violation(reason=fill_in(rule.reason, case), field=rule.field, rule=rule)
        return None

    def _get_facts(self, workload: Workload, unpacking: str | None) -> ModelFacts:
        """Return the facts of the model as a workload loads its weights."""
        if unpacking not in self._facts:
            self._facts[unpacking] = collect_facts(as_loaded(self._model, workload))
        return self._facts[unpacking]

    def _get_rules(self, case: Case, unpacking: str | None) -> tuple[Rule, ...]:
        table = get_rule_table(case.workload)
        key = table.name, unpacking
        if key not in self._rules:
            rules = sorted(select_rules(table.reasons, case.model), key=_reads_layout)
            self._rules[key] = tuple(rules)
        return self._rules[key]


def _reads_layout(rule: Rule) -> bool:
    return any(path.startswith("layout.") for path in rule.reads)
