"""The shape of the table of rules.

A rule is for those to whom it has something to say: a ``refusal`` for the estimator, a ``reason``
for the planner, an ``obstacle`` for a probe.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import field as make_field
from enum import Enum, auto
from operator import attrgetter

from service.estimator.rules.grammar.conditions import Condition
from service.estimator.rules.grammar.facts import Case
from service.estimator.values.errors import EstimatorError, InvalidInputError, NotModelledError
from service.estimator.values.layout import Sharding

Text = str | Callable[[Case], str]
"""A sentence that quotes the case in braces, or what makes one."""
NO_TERM = "no term for it"
"""Source of a rule that only says what the estimator does not model."""


class Topic(Enum):
    """Subject of a rule.

    Each runner's estimates go through topics in an order of their own.
    """

    RUNNER = auto()
    MODEL = auto()
    METHOD = auto()
    SWITCHES = auto()
    FLOAT8 = auto()
    OPTIMIZER = auto()
    LABELS = auto()
    SPLIT_LOSS = auto()
    LOSS = auto()
    WHOLE_LAYERS = auto()
    CHECKPOINTING = auto()
    UNITS = auto()
    FROZEN = auto()
    REENTRANT = auto()
    OFFLOADED_ACTIVATIONS = auto()
    OFFLOAD = auto()
    WEIGHTS = auto()
    ADAPTERS = auto()
    SEQUENCE = auto()
    FRAMES = auto()
    LENGTHS = auto()
    HALF = auto()
    CLAMPS = auto()
    DECODER = auto()
    IMAGES = auto()
    SCALARS = auto()
    SHARED = auto()
    ATTENTION = auto()
    PRECISION = auto()
    ONE_STAGE = auto()
    SHARDING = auto()
    SEPARATE = auto()
    FLAT = auto()
    STATES = auto()
    RECURRENT = auto()
    DIVISIBLE = auto()
    NORMS = auto()
    PLAN = auto()
    BESIDE_TENSORS = auto()
    STAGES = auto()
    SLICES = auto()
    EXPERTS = auto()
    VOCABULARY = auto()
    BEAMS = auto()
    FORMATS = auto()
    KV_CACHE = auto()
    LENGTH = auto()
    SPREAD = auto()
    TOKENS = auto()
    CACHE = auto()
    EAGER = auto()
    WORDS = auto()
    ZERO = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Error of the estimator.

    With ``modelled`` it says that there is no term, else that a question cannot run.

    ``field`` is left out where the rule's own is meant.
    """

    text: Text
    modelled: Sequence[str] | Callable[[Case], Sequence[str]] | None = None
    field: Text | None = None

    def make_error(self, case: Case, own_field: str) -> EstimatorError:
        """Return the error for a case."""
        path = own_field if self.field is None else fill_in(self.field, case)
        text = fill_in(self.text, case)
        if self.modelled is None:
            return InvalidInputError(text, field=path)
        listed = self.modelled(case) if callable(self.modelled) else self.modelled
        return NotModelledError(text, field=path, modelled=listed)


OTHERS = Refusal(text="")
"""That a field has no other value than those that a rule lists, each of which is modelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A requirement on a case, where ``when`` holds.

    ``field`` is left out where it is the first that ``require`` reads.
    """

    require: Condition
    when: Condition | None = None
    topic: Topic | None = None
    refusal: Refusal | None = None
    reason: Text | None = None
    obstacle: Text | None = None
    field: str = ""
    source: str = NO_TERM
    reads: frozenset[str] = make_field(init=False)

    def __post_init__(self) -> None:
        """Name the field, and all that are read."""
        object.__setattr__(self, "field", self.field or self.require.field)
        reads = self.require.paths | (self.when.paths if self.when is not None else frozenset())
        object.__setattr__(self, "reads", reads)

    def allows(self, case: Case) -> bool:
        """Return whether a case keeps the rule."""
        return (self.when is not None and not self.when.holds(case)) or self.require.holds(case)

    def make_refusal(self, case: Case) -> EstimatorError:
        """Return the estimator's error for a case that breaks the rule."""
        assert self.refusal is not None  # noqa: S101 - the estimator asks no others
        if self.refusal is OTHERS:
            return _refuse_others(self.require, case)
        return self.refusal.make_error(case, self.field)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingOption:
    """A sharding implementation and its ZeRO stages."""

    sharding: Sharding
    zero_stages: tuple[int, ...]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RuleTable:
    """Sharding options and rules of one framework or engine.

    The planner asks the rules as they are listed, the estimator by ``topics``. ``beside`` are rules
    that the planner asks first, and the estimator by another table.
    """

    name: str
    rules: tuple[Rule, ...]
    beside: tuple[Rule, ...] = ()
    topics: tuple[Topic, ...] = ()
    sharding_options: tuple[ShardingOption, ...] = ()
    reasons: tuple[Rule, ...] = make_field(init=False)
    """The rules that the planner asks, in its order."""
    refusals: tuple[Rule, ...] = make_field(init=False)
    """The rules that the estimator asks, in its order."""

    def __post_init__(self) -> None:
        """Order the rules for each who asks."""
        planned = {id(rule): rule for rule in (*self.beside, *self.rules)}
        reasons = tuple(rule for rule in planned.values() if rule.reason is not None)
        refusing = [rule for rule in self.rules if rule.refusal is not None]
        refusals = tuple(rule for topic in self.topics for rule in refusing if rule.topic is topic)
        object.__setattr__(self, "reasons", reasons)
        object.__setattr__(self, "refusals", refusals)


def invalid(text: Text, *, field: Text | None = None) -> Refusal:
    """Return the refusal of what cannot run."""
    return Refusal(text=text, field=field)


def unmodelled(text: Text, *modelled: str, field: Text | None = None) -> Refusal:
    """Return the refusal of what has no term."""
    return Refusal(text=text, modelled=modelled, field=field)


def _refuse_others(require: Condition, case: Case) -> EstimatorError:
    """Return the error for a value that is not modelled."""
    name, value = require.field.rpartition(".")[2], attrgetter(require.field)(case)
    modelled = [str(word) for word in require.values or () if word is not None]
    return NotModelledError(f"{name} {str(value)!r}", field=require.field, modelled=modelled)


def fill_in(text: Text, case: Case) -> str:
    """Return a text about a case."""
    if callable(text):
        return text(case)
    return text.format(model=case.model, workload=case.workload, layout=case.layout)
