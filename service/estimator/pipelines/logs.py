"""Recorded allocations of a run, sized by polynomials of its extents.

An event is one whole number: ``3 k`` allocates a storage of kind ``k``, ``3 a + 1`` frees the one
that was made ``a`` allocations before the last, ``3 c + 2`` enters (``c`` even) or leaves (odd)
module ``c // 2``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from service.estimator.pipelines.extents import Extents
from service.estimator.values.errors import InvalidInputError

Term = tuple[tuple[int, ...], int]
"""Powers of the extents, and the bytes of one."""
Polynomial = tuple[Term, ...]

MAX_STORAGE = 2**47
"""Bytes that a 64-bit process can address (Linux, mm.rst of x86_64); no storage is larger."""


class Kind(Enum):
    """Action of an event."""

    ALLOCATE = 0
    FREE = 1
    ENTER = 2
    LEAVE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """Events of a run in order, with the sizes of its storages.

    ``modules`` are the names of those that are entered and left.
    """

    kinds: tuple[Polynomial, ...]
    workspaces: frozenset[int]
    """Kinds that stand for the most that a convolution's workspace takes, no tensors."""
    events: tuple[int, ...]
    modules: tuple[str, ...]

    def price(self, extents: Extents) -> list[int]:
        """Return the bytes of each kind.

        Raises InvalidInputError where a size is none.
        """
        return [check_size(evaluate(kind, extents)) for kind in self.kinds]

    def iterate(self) -> Iterator[tuple[Kind, int, int]]:
        """Yield each event's action, storage or module, and kind."""
        born: list[int] = []
        for event in self.events:
            number, what = divmod(event, 3)
            if what == 0:
                yield Kind.ALLOCATE, len(born), number
                born.append(number)
            elif what == 1:
                storage = len(born) - 1 - number
                yield Kind.FREE, storage, born[storage]
            else:
                yield (Kind.LEAVE if number & 1 else Kind.ENTER), number >> 1, 0

    def check(self) -> None:
        """Raise ValueError for events that cannot be."""
        live: set[int] = set()
        entered: set[int] = set()
        for what, number, kind in self.iterate():
            if what is Kind.ALLOCATE:
                if kind >= len(self.kinds):
                    message = f"kind {kind} of {len(self.kinds)}"
                    raise ValueError(message)
                live.add(number)
            elif what is Kind.FREE:
                if number not in live:
                    message = f"storage {number} is freed, and is not there"
                    raise ValueError(message)
                live.remove(number)
            elif number >= len(self.modules):
                message = f"module {number} of {len(self.modules)}"
                raise ValueError(message)
            elif (what is Kind.ENTER) == (number in entered):
                message = f"module {number} is entered twice, or left before"
                raise ValueError(message)
            else:
                entered ^= {number}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """Highest live bytes of a run whose events depend on its frames.

    They are the greatest of several polynomials, from ``min_frames`` frames of latents on.
    ``bounds`` have the most that workspaces of convolutions take besides.
    """

    peaks: tuple[Polynomial, ...]
    bounds: tuple[Polynomial, ...]
    min_frames: int


def check_size(num_bytes: int) -> int:
    """Return a storage's bytes.

    Raises InvalidInputError for what no recorded storage has.
    """
    if not 0 <= num_bytes <= MAX_STORAGE:
        message = (
            f"its recording makes a storage of {num_bytes} bytes at this size; it must be 0 to "
            f"{MAX_STORAGE}: record the pipeline again, or ask for a smaller size"
        )
        raise InvalidInputError(message, field="model")
    return num_bytes


def evaluate(polynomial: Sequence[Term], extents: Extents) -> int:
    """Return a polynomial's bytes at extents."""
    total = 0
    for powers, coefficient in polynomial:
        value = coefficient
        for extent, power in zip(extents.numbers, powers, strict=True):
            value *= extent**power
        total += value
    return total
