"""Recordings of sharded steps that differ in padding alone.

How many ranks share the rows of tensors changes no operation: only the elements by which units are
filled up. A step is recorded once with an unknown for the filling of each unit, and then filled up
for any number of ranks.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import add, ge, itemgetter
from typing import Generic, TypeVar

from service.estimator.model.architecture import Architecture
from service.estimator.model.recording import Recording
from service.estimator.model.unit_elements import count_unit_elements, list_adapter_factors
from service.estimator.model.weights.tensors import Weight, count_padded_elements
from service.estimator.passes.config import PeakCandidates, TrainingPass
from service.estimator.passes.recorder import (
    MakeUnits,
    build_training_context,
    list_unit_weights,
    log_training,
    run_training,
)
from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Ledger, Live, Section, build_point
from service.estimator.tape.nodes import Value
from service.estimator.tape.sizes import Size
from service.estimator.tape.units import NO_PADDING, FsdpConfig, ShardedUnits, ShardPadding
from service.estimator.values.memo import Memo

_BITS = 80
"""Bits of a number beyond which an unknown's factor is: no GPU has as many bytes."""
_ROOT = 0
"""Place of the root's unknown; those of the kinds of blocks follow it, those of their adapters, and
in a log all tensors'.
"""
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
    is_stack = type(model) is Architecture and model.walker is None and config.images is None
    unpadded = replace(config, gathering=replace(gathering, uneven_ranks=1, padding=NO_PADDING))
    if not is_stack or model.shares_weights or not _have_own_fillings(_list_units(model, unpadded)):
        return None
    return unpadded


def _is_plain(config: TrainingPass, gathering: FsdpConfig) -> bool:
    """Return whether units are whole blocks with or without adapters, and the root.

    An adapter's elements are a whole number of gathered ones.
    """
    apart = gathering.splits_root or gathering.fetches_modules or gathering.flat_parameters
    apart |= gathering.adapter_units or gathering.cast_ranks is not None
    is_whole = gathering.adapter_bytes % gathering.gather_bytes == 0
    return not apart and not config.frozen and (config.lora is None or is_whole)


@dataclass(frozen=True, slots=True)
class _Unit:
    """Tensors of a kind of block and of its adapters, and what is gathered of it."""

    weights: tuple[Weight, ...]
    factors: tuple[Weight, ...]
    elements: int

    def get_shapes(self) -> tuple[Counter[tuple[int, int]], ...]:
        """Return all that the fillings depend on: rows, and elements of each."""
        return tuple(
            [
                Counter([(weight.shape[0], weight.numel) for weight in weights])
                for weights in (self.weights, self.factors)
            ]
        )


def _list_units(model: Architecture, unpadded: TrainingPass) -> tuple[_Unit, ...]:
    """Return the kinds of blocks, in order."""
    assert unpadded.gathering is not None  # noqa: S101 - only sharded passes are asked for
    tape = Tape(Section.FORWARD, Mode.RECORDING, autocast=unpadded.autocast)
    ctx = Recording(tape, build_training_context(model, unpadded))
    units = []
    for block, _ in model.blocks:
        weights, linears = tuple(block.weights()), tuple(block.linears())
        elements, _ = count_unit_elements(ctx, weights, linears, unpadded.gathering)
        units.append(_Unit(weights, tuple(list_adapter_factors(ctx, weights, linears)), elements))
    return tuple(units)


def _have_own_fillings(units: Sequence[_Unit]) -> bool:
    """Return whether units of as many elements are filled up alike."""
    shapes = {unit.elements: unit.get_shapes() for unit in units}
    return all(unit.get_shapes() == shapes[unit.elements] for unit in units)


class _UnknownUnits(ShardedUnits):
    """Units whose filling is unknown: so many bits beyond their elements."""

    def __init__(
        self, tape: Tape, config: FsdpConfig, unknowns: Mapping[int, tuple[int, int]]
    ) -> None:
        super().__init__(tape, replace(config, padding=ShardPadding(root=_encode(_ROOT))))
        self._unknowns = unknowns

    def run_block(
        self, block: Callable[[Value], Value], x: Value, *, elements: int, trained: int
    ) -> Value:
        """Run a block with its unknowns."""
        gathered, reduced = self._unknowns[elements]
        return super().run_block(block, x, elements=elements + gathered, trained=trained + reduced)


@dataclass(frozen=True, slots=True)
class _Moment:
    """Live memory without filling, and the factors of unknowns."""

    live: Live
    factors: tuple[tuple[Category, Factors], ...]
    bounds: tuple[int, ...]
    """None of them is larger in a moment that is covered, however units are filled up."""

    def covers(self, later: "_Moment") -> bool:
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

    moments: Mapping[Section, tuple[_Moment, ...]]
    units: tuple[_Unit, ...]

    def pad(self, gathering: FsdpConfig) -> PeakCandidates:
        """Return the highest points with units filled up for so many ranks."""
        padding = _list_padding(self.units, gathering)
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
    units = _list_units(model, config)
    run_training(tape, model, config, make=_make_units(units, config))
    tape.ledger.mark()
    num_unknowns = _count_unknowns(units)
    moments = {
        section: _drop_covered([_split(live, num_unknowns) for live in points])
        for section, points in tape.ledger.points.items()
    }
    return PaddedRecording(moments, units)


@dataclass(frozen=True, slots=True)
class PaddedLog:
    """The events of a step, with unknowns in what they allocate."""

    events: Events
    units: tuple[_Unit, ...]
    tensors: tuple[Weight, ...]

    def pad(self, gathering: FsdpConfig) -> Events:
        """Return the events with units filled up for so many ranks."""
        padding = _list_padding(self.units, gathering)
        padding += [_count_filling([weight], gathering.uneven_ranks) for weight in self.tensors]

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
    units, (*blocks, root) = _list_units(model, config), list_unit_weights(model)
    place, unit_tensors = _count_unknowns(units), {}
    for unit, weights in (*enumerate(blocks, _ROOT + 1), (_ROOT, root)):
        numels = [weight.numel for weight in weights]
        unit_tensors[sum(numels) + _encode(unit)] = tuple(
            [numel + _encode(each) for each, numel in enumerate(numels, place)]
        )
        place += len(numels)
    events = log_training(model, config, make=_make_units(units, config), unit_tensors=unit_tensors)
    return PaddedLog(events, units, tuple(chain(*blocks, root)))


S = TypeVar("S")


class SharedRecordings(Generic[S]):
    """Recordings that passes share which differ in padding alone.

    They do from the second pass on: what is shared takes longer to make than one of its own.
    """

    def __init__(self, record: Callable[[Architecture, TrainingPass], S], *, capacity: int) -> None:
        """Start empty; ``record`` makes what is shared."""
        self._record = record
        self._first: Memo[TrainingPass] = Memo(capacity)
        self._shared: Memo[S] = Memo(capacity)

    def find(self, model: Architecture, config: TrainingPass) -> S | None:
        """Return what a pass shares, None for one of its own."""
        unpadded = get_unpadded(model, config)
        if unpadded is None:
            return None
        key = (model.spec, unpadded)
        if self._first.get(key) is None:
            self._first.store(key, config)
            return None
        return self._shared.get_or_make(key, lambda: self._record(model, unpadded))


def _make_units(units: Sequence[_Unit], config: TrainingPass) -> MakeUnits:
    """Return a function that makes units with unknowns.

    Of each unit they are what is gathered beyond its elements, and what is reduced.
    """
    assert config.gathering is not None  # noqa: S101 - only sharded passes are asked for
    unknowns = {}
    for place, unit in enumerate(units, _ROOT + 1):
        of_weights = _encode(place)
        of_adapters = _encode(place + len(units)) if unit.factors else 0
        gathered = of_weights + config.gathering.to_gathered_elements(of_adapters)
        unknowns[unit.elements] = gathered, of_weights if config.trains_all else of_adapters
    return lambda tape, gathering: _UnknownUnits(tape, gathering, unknowns)


def _list_padding(units: Sequence[_Unit], gathering: FsdpConfig) -> list[int]:
    """Return the filling of root, blocks and their adapters for so many ranks."""
    ranks = gathering.uneven_ranks
    padding = [gathering.padding.root, *[_count_filling(unit.weights, ranks) for unit in units]]
    if _has_adapters(units):
        padding += [_count_filling(unit.factors, ranks) for unit in units]
    return padding


def _count_unknowns(units: Sequence[_Unit]) -> int:
    """Return the number of unknowns of root, blocks and their adapters."""
    return 1 + len(units) * (2 if _has_adapters(units) else 1)


def _has_adapters(units: Sequence[_Unit]) -> bool:
    return any(unit.factors for unit in units)


def _count_filling(weights: Sequence[Weight], ranks: int) -> int:
    return count_padded_elements(weights, ranks) - count_padded_elements(weights, 1)


def _fill(constant: int, factors: Sequence[int], padding: Sequence[int]) -> int:
    return constant + sum([factor * each for factor, each in zip(factors, padding, strict=True)])


def _encode(place: int) -> int:
    return 1 << _BITS * (place + 1)


def _decode(number: int, num_unknowns: int) -> list[int]:
    """Return a number without unknowns, and the factor of each of them."""
    return [number >> _BITS * place & (1 << _BITS) - 1 for place in range(num_unknowns + 1)]


def _split(live: Live, num_unknowns: int) -> _Moment:
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
    return _Moment(known, tuple(factors), bounds)


def _drop_covered(moments: Sequence[_Moment]) -> tuple[_Moment, ...]:
    """Return the moments that may be the highest, in order.

    Of equal ones the first is kept, whatever fills units up: a later one covers only what is lower
    without any filling.
    """
    kept: list[tuple[int, _Moment]] = []
    for index, moment in sorted(enumerate(moments), key=lambda pair: -pair[1].bounds[_AT_ONE]):
        height = moment.bounds[_AT_ONE]
        if not any(
            (place < index or other.bounds[_AT_ONE] > height) and other.covers(moment)
            for place, other in kept
        ):
            kept.append((index, moment))
    return tuple([moment for _, moment in sorted(kept, key=itemgetter(0))])
