"""Recordings of sharded steps that differ in padding alone.

How many ranks share the rows of tensors changes no operation: only the elements by which units are
filled up. A step is recorded once with an unknown for the filling of each unit, and then filled up
for any number of ranks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import add, ge, itemgetter
from typing import Any, Generic, TypeVar

from service.estimator.model.architecture import Architecture
from service.estimator.model.weights.tensors import Weight
from service.estimator.passes.config import PeakCandidates, TrainingPass
from service.estimator.passes.padded_units import (
    BITS,
    ROOT,
    Unit,
    are_filled_alike,
    count_filling,
    count_unknowns,
    encode_unknown,
    list_padding,
    list_units,
    make_unknown_units,
)
from service.estimator.passes.recorder import (
    list_unit_weights,
    log_training,
    run_training,
)
from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Ledger, Live, Section, build_point
from service.estimator.tape.sizes import Size
from service.estimator.tape.units import NO_PADDING, FsdpConfig
from service.estimator.values.memo import Memo

_AT_ONE = 5
"""Place, in the bounds of a moment, of its bytes at one sequence of one token."""
Factors = tuple[int, ...]


def get_unpadded(model: Architecture, config: TrainingPass) -> TrainingPass | None:
    """Return the pass that a padded one shares its recording with.

    None where it has no padding, or where more than the filling of root and blocks depends on it.
    """
    gathering = config.gathering
    if gathering is None or gathering.uneven_ranks == 1 or not _is_plain(config, gathering):
        return None
    if config.evaluation is not None:
        return None
    is_stack = type(model) is Architecture and model.walker is None and config.images is None
    unpadded = replace(config, gathering=replace(gathering, uneven_ranks=1, padding=NO_PADDING))
    if not is_stack or model.shares_weights or not are_filled_alike(list_units(model, unpadded)):
        return None
    return unpadded


def _is_plain(config: TrainingPass, gathering: FsdpConfig) -> bool:
    """Return whether units are whole blocks and the root.

    Blocks may have adapters, whose elements are a whole number of gathered ones each.
    """
    apart = gathering.splits_root or gathering.fetches_modules or gathering.flat_parameters
    apart |= gathering.adapter_units or gathering.cast_ranks is not None
    is_whole = gathering.adapter_bytes % gathering.gather_bytes == 0
    return not apart and not config.frozen and (config.lora is None or is_whole)


@dataclass(frozen=True, slots=True)
class Moment:
    """Live memory without filling, and the factors of unknowns."""

    live: Live
    factors: tuple[tuple[Category, Factors], ...]
    bounds: tuple[int, ...]
    """None of them is larger in a moment that is covered, however units are filled up."""

    def covers(self, later: "Moment") -> bool:
        """Return whether a later moment is no higher."""
        return all(map(ge, self.bounds, later.bounds))

    def fill(self, padding: Sequence[int]) -> Live:
        """Return the live memory with units filled up."""
        live = self.live.copy()
        for category, factors in self.factors:
            constant, *others = live[category]
            filled = _fill(constant, factors, padding)
            live[category] = (filled, *others)  # type: ignore[assignment]  # as many
        return live


@dataclass(frozen=True, slots=True)
class PaddedRecording:
    """The moments of a step at which memory stops rising, by section."""

    moments: Mapping[Section, tuple[Moment, ...]]
    units: tuple[Unit, ...]

    def pad(self, gathering: FsdpConfig) -> PeakCandidates:
        """Return the highest points with units filled up for so many ranks."""
        padding = list_padding(self.units, gathering)
        ledger = Ledger(Section.FORWARD)
        ledger.points = {
            section: [moment.fill(padding) for moment in moments]
            for section, moments in self.moments.items()
        }
        return ledger.find_peak_candidates()


def record_unpadded(model: Architecture, config: TrainingPass) -> PaddedRecording:
    """Record one micro batch, with the filling of its units left open."""
    tape = Tape(
        Section.FORWARD, Mode.RECORDING, autocast=config.autocast, accumulating=config.accumulating
    )
    units = list_units(model, config)
    run_training(tape, model, config, make=make_unknown_units(units, config))
    tape.ledger.mark()
    num_unknowns = count_unknowns(units)
    moments = {
        section: _drop_covered([_split(live, num_unknowns) for live in points])
        for section, points in tape.ledger.points.items()
    }
    return PaddedRecording(moments, units)


@dataclass(frozen=True, slots=True)
class PaddedLog:
    """The events of a step, with unknowns in what they allocate."""

    events: Events
    units: tuple[Unit, ...]
    tensors: tuple[Weight, ...]

    def pad(self, gathering: FsdpConfig) -> Events:
        """Return the events with units filled up for so many ranks."""
        padding = list_padding(self.units, gathering)
        padding += [count_filling([weight], gathering.uneven_ranks) for weight in self.tensors]

        def fill(number: int) -> int:
            constant, *factors = _decode(number, len(padding))
            return _fill(constant, factors, padding)

        shards = {elements: fill(elements) for _, elements in self.events.shards}
        filled = [(fill(number), *others) for number, *others in self.events.sizes]
        return replace(
            self.events,
            sizes=tuple(filled),  # type: ignore[arg-type]  # as many
            shards=tuple([(index, shards[elements]) for index, elements in self.events.shards]),
        )


def log_unpadded(model: Architecture, config: TrainingPass) -> PaddedLog:
    """Log one micro batch, with the filling of its units left open.

    A tensor has an unknown of its own beside its unit's: ranks gather tensors one by one.
    """
    units, (*blocks, root) = list_units(model, config), list_unit_weights(model)
    place, unit_tensors = count_unknowns(units), {}
    for unit, weights in (*enumerate(blocks, ROOT + 1), (ROOT, root)):
        numels = [weight.numel for weight in weights]
        unit_tensors[sum(numels) + encode_unknown(unit)] = tuple(
            [numel + encode_unknown(each) for each, numel in enumerate(numels, place)]
        )
        place += len(numels)
    events = log_training(
        model, config, make=make_unknown_units(units, config), unit_tensors=unit_tensors
    )
    return PaddedLog(events, units, tuple(chain(*blocks, root)))


S = TypeVar("S")


class SharedRecordings(Generic[S]):
    """Recordings that passes share which differ in padding alone.

    They do from the second pass on: what is shared takes longer to make than one of its own.
    """

    def __init__(
        self,
        record: Callable[[Architecture, TrainingPass], S],
        *,
        capacity: int,
        read: Callable[[Architecture, TrainingPass], S | None] = lambda _model, _config: None,
    ) -> None:
        """Start empty; ``record`` makes what is shared.

        ``read`` returns what another process has made of it.
        """
        self._record, self._read = record, read
        self._first: Memo[TrainingPass] = Memo(capacity)
        self._shared: Memo[S] = Memo(capacity)

    def list_memos(self, kind: str) -> dict[str, Memo[Any]]:
        """Return what is kept, by names after that of what is recorded."""
        return {f"first {kind}": self._first, f"shared {kind}": self._shared}

    def find(self, model: Architecture, config: TrainingPass) -> S | None:
        """Return what a pass shares, None for one of its own."""
        unpadded = get_unpadded(model, config)
        if unpadded is None:
            return None
        key = (model.spec, unpadded)
        if self._first.get(key) is None:
            self._first.store(key, config)
            read = self._read(model, unpadded)
            return None if read is None else self._shared.store(key, read)
        return self._shared.get_or_make(key, lambda: self._record(model, unpadded))


def _fill(constant: int, factors: Sequence[int], padding: Sequence[int]) -> int:
    return constant + sum([factor * each for factor, each in zip(factors, padding, strict=True)])


def _decode(number: int, num_unknowns: int) -> list[int]:
    """Return a number without unknowns, and the factor of each of them."""
    return [number >> BITS * place & (1 << BITS) - 1 for place in range(num_unknowns + 1)]


def _split(live: Live, num_unknowns: int) -> Moment:
    """Return live memory, and the factors of the unknowns in it."""
    known: dict[Category, Size] = {}
    factors: list[tuple[Category, Factors]] = []
    in_bytes, in_gradients = [0] * num_unknowns, [0] * num_unknowns
    for category, (number, *others) in live.items():
        constant, *each = _decode(number, num_unknowns)
        known[category] = (constant, *others)  # type: ignore[assignment]  # as many
        if any(each):
            factors.append((category, tuple(each)))
            counted = in_gradients if category is Category.GRADIENTS else in_bytes
            counted[:] = map(add, counted, each)
    point = build_point(known)
    bounds = (*sizes.expand_at_one(point.bytes), point.gradients, *in_bytes, *in_gradients)
    return Moment(known, tuple(factors), bounds)


def _drop_covered(moments: Sequence[Moment]) -> tuple[Moment, ...]:
    """Return the moments that may be the highest, in order.

    Of equal ones the first is kept, whatever fills units up: a later one covers only what is lower
    without any filling.
    """
    kept: list[tuple[int, Moment]] = []
    for index, moment in sorted(enumerate(moments), key=lambda pair: -pair[1].bounds[_AT_ONE]):
        height = moment.bounds[_AT_ONE]
        if not any(
            (place < index or other.bounds[_AT_ONE] > height) and other.covers(moment)
            for place, other in kept
        ):
            kept.append((index, moment))
    return tuple([moment for _, moment in sorted(kept, key=itemgetter(0))])
