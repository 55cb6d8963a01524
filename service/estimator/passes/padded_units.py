"""Units of sharded steps whose filling is unknown."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.recording import Recording
from service.estimator.model.unit_elements import count_unit_elements, list_adapter_factors
from service.estimator.model.weights.tensors import Weight, count_padded_elements
from service.estimator.passes.config import TrainingPass, build_training_context
from service.estimator.passes.recorder import MakeUnits
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Section
from service.estimator.tape.nodes import Value
from service.estimator.tape.units import FsdpConfig, ShardedUnits, ShardPadding

BITS = 80
"""Bits of a number beyond which an unknown's factor is: no GPU has as many bytes."""
ROOT = 0
"""Place of the root's unknown; those of the kinds of blocks follow it, those of their adapters, and
in a log all tensors'.
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """Tensors of a kind of block, and of its adapters.

    ``elements`` are gathered of it without any filling.
    """

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


def list_units(model: Architecture, unpadded: TrainingPass) -> tuple[Unit, ...]:
    """Return the kinds of blocks, in order."""
    assert unpadded.gathering is not None  # noqa: S101 - only sharded passes are asked for
    tape = Tape(Section.FORWARD, Mode.RECORDING, autocast=unpadded.autocast)
    ctx = Recording(tape, build_training_context(model, unpadded))
    units = []
    for block, _ in model.blocks:
        weights, linears = tuple(block.weights()), tuple(block.linears())
        elements, _ = count_unit_elements(ctx, weights, linears, unpadded.gathering)
        units.append(Unit(weights, tuple(list_adapter_factors(ctx, weights, linears)), elements))
    return tuple(units)


def are_filled_alike(units: Sequence[Unit]) -> bool:
    """Return whether units of equal size are filled up alike."""
    shapes = {unit.elements: unit.get_shapes() for unit in units}
    return all(unit.get_shapes() == shapes[unit.elements] for unit in units)


class _UnknownUnits(ShardedUnits):
    """Units whose filling is unknown: so many bits beyond their elements."""

    def __init__(
        self, tape: Tape, config: FsdpConfig, unknowns: Mapping[int, tuple[int, int]]
    ) -> None:
        super().__init__(tape, replace(config, padding=ShardPadding(root=encode_unknown(ROOT))))
        self._unknowns = unknowns

    def run_block(
        self, block: Callable[[Value], Value], x: Value, *, elements: int, trained: int
    ) -> Value:
        """Run a block with its unknowns."""
        gathered, reduced = self._unknowns[elements]
        return super().run_block(block, x, elements=elements + gathered, trained=trained + reduced)


def make_unknown_units(units: Sequence[Unit], config: TrainingPass) -> MakeUnits:
    """Return a function that makes units with unknowns.

    Of each unit they are what is gathered beyond its elements, and what is reduced.
    """
    assert config.gathering is not None  # noqa: S101 - only sharded passes are asked for
    unknowns = {}
    for place, unit in enumerate(units, ROOT + 1):
        of_weights = encode_unknown(place)
        of_adapters = encode_unknown(place + len(units)) if unit.factors else 0
        gathered = of_weights + config.gathering.to_gathered_elements(of_adapters)
        unknowns[unit.elements] = gathered, of_weights if config.trains_all else of_adapters
    return lambda tape, gathering: _UnknownUnits(tape, gathering, unknowns)


def list_padding(units: Sequence[Unit], gathering: FsdpConfig) -> list[int]:
    """Return the filling of root, blocks and adapters."""
    ranks = gathering.uneven_ranks
    padding = [gathering.padding.root, *[count_filling(unit.weights, ranks) for unit in units]]
    if _has_adapters(units):
        padding += [count_filling(unit.factors, ranks) for unit in units]
    return padding


def count_unknowns(units: Sequence[Unit]) -> int:
    """Return the number of unknowns of root, blocks and their adapters."""
    return 1 + len(units) * (2 if _has_adapters(units) else 1)


def _has_adapters(units: Sequence[Unit]) -> bool:
    return any(unit.factors for unit in units)


def count_filling(weights: Sequence[Weight], ranks: int) -> int:
    """Count the elements that fill tensors up for so many ranks."""
    return count_padded_elements(weights, ranks) - count_padded_elements(weights, 1)


def encode_unknown(place: int) -> int:
    """Return a number that stands for the unknown of a place."""
    return 1 << BITS * (place + 1)
