"""Checks of the estimator: the first broken rule is the refusal.

Rules that cannot apply to a model are dropped once, and words that were legal once are legal for
every batch and sequence: for these only the rules about sizes are asked again.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter

from service.estimator.model.architecture import Architecture
from service.estimator.rules.grammar.conditions import settle
from service.estimator.rules.grammar.facts import Case, ModelFacts, collect_facts
from service.estimator.rules.grammar.rule import Rule, RuleTable
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload

_SIZES = frozenset(
    {
        *("tokens", "longest", "workload.micro_batch_size", "workload.sequence_length"),
        *("workload.num_sequences", "workload.prompt_tokens", "workload.output_tokens"),
    }
)
"""What differs from one batch and sequence to the next."""
_SHARDS = ("layout.shard_size", "layout.data_parallel", "layout.context_parallel")
_MADE_OF: Mapping[str, tuple[str, ...]] = {
    "layout.num_gpus": (*_SHARDS[1:], "layout.tensor_parallel", "layout.pipeline_parallel"),
    "layout.shards": _SHARDS,
    "workload.lora.dtype": ("workload.lora",),
}
"""Fields that others decide, or that are not always there, with those that stand for them."""
_MAX_LEGAL = 1024


class Checks:
    """The refusals of one table that can apply to one model."""

    def __init__(self, table: RuleTable, model: Architecture) -> None:
        """Drop what the model settles; part the others by size."""
        self.model, self.table = model, table
        self._facts = collect_facts(model)
        self._rules = tuple(select_rules(table.refusals, self._facts))
        self._sized = tuple(rule for rule in self._rules if rule.reads & _SIZES)
        words = {path for rule in self._rules if not rule.reads & _SIZES for path in rule.reads}
        self._get_words = _make_reader("workload", words)
        self._get_degrees = _make_reader("layout", words)
        self._legal: set[object] = set()

    def check(self, workload: Workload, layout: Layout) -> None:
        """Raise the refusal of the first rule that a question breaks."""
        words = self._get_words(workload), self._get_degrees(layout)
        if words in self._legal:
            self.check_sizes(workload, layout)
            return
        _check_all(self._rules, Case(self._facts, workload, layout))
        if len(self._legal) >= _MAX_LEGAL:
            self._legal.clear()
        self._legal.add(words)

    def check_sizes(self, workload: Workload, layout: Layout) -> None:
        """Raise the refusal of the first broken rule about sizes."""
        if self._sized:
            _check_all(self._sized, Case(self._facts, workload, layout))


def check(table: RuleTable, model: Architecture, workload: Workload, layout: Layout) -> None:
    """Raise InvalidInputError or NotModelledError for what a table forbids."""
    Checks(table, model).check(workload, layout)


def select_rules(rules: Iterable[Rule], facts: ModelFacts) -> Iterable[Rule]:
    """Yield the rules that a model leaves open, or breaks."""
    for rule in rules:
        case = Case(facts, None, None)  # type: ignore[arg-type]  # only the model is looked at
        unknown = frozenset(path for path in rule.reads if not path.startswith("model."))
        applies = True if rule.when is None else settle(rule.when, case, unknown)
        if applies is not False and settle(rule.require, case, unknown) is not True:
            yield rule


def _check_all(rules: Iterable[Rule], case: Case) -> None:
    for rule in rules:
        if not rule.allows(case):
            refusal = rule.make_refusal(case)
            if not rule.reads & _SIZES:  # which frameworks divide before they are asked about
                refusal.decided_by = frozenset(_expand(rule.reads))
            raise refusal


def _expand(paths: Iterable[str]) -> Iterable[str]:
    """Return the fields that decide about some paths."""
    return {part for path in paths for part in _MADE_OF.get(path, (path,))}


def _make_reader(of: str, paths: Iterable[str]) -> Callable[[object], object]:
    """Return the getter of the fields that decide about legality."""
    names = sorted(
        path.removeprefix(f"{of}.") for path in _expand(paths) if path.startswith(f"{of}.")
    )
    return attrgetter(*(names or ["__class__"]))
