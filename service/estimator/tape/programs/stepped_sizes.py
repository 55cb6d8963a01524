"""Sizes that grow in steps of the length too."""

from dataclasses import dataclass

from service.estimator.tape.sizes import Size, add, evaluate, evaluate_monomials
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.units import ceil_div

MAX_TURNS = 2**16
"""Turns of a loop: four million tokens in chunks of 64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SteppedSize:
    """A polynomial of batch, length and how many steps the length has.

    ``steps`` has the coefficients of ``n, b*n, s*n, b*s*n, n*n, b*n*n``, where ``s`` tokens have
    ``n`` steps of ``tokens`` each: those begun where ``begun``, else those that are complete.
    """

    plain: Size
    tokens: int
    begun: bool
    steps: Size

    def resolve(self, length: int) -> Size:
        """Return the size as a polynomial that is right at one length."""
        count = ceil_div(length, self.tokens) if self.begun else length // self.tokens
        a, b, c, d, e, f = self.steps
        square = count * count
        fixed = (a * count + e * square, b * count + f * square, c * count, d * count, 0, 0)
        return add(self.plain, fixed)

    def smooth(self) -> Size:
        """Return the size with a polynomial in place of its steps."""
        a, b, c, d, e, f = (part // self.tokens for part in self.steps)
        return add(self.plain, (0, 0, a, b, c + e // self.tokens, d + f // self.tokens))


AnySize = Size | SteppedSize


def resolve_size(size: AnySize, length: int | None) -> Size:
    """Return a size as a polynomial.

    Raises InvalidInputError for a stepped one without a length.
    """
    if isinstance(size, tuple):
        return size
    if length is None:
        message = "a size in steps of a length that is not known"
        raise InvalidInputError(message)
    return size.resolve(length)


def count_row_elements(size: AnySize) -> int:
    """Return the elements of a tensor for each sequence or token."""
    plain = size if isinstance(size, tuple) else size.plain
    return plain[1] + plain[3]


def count_turns(turns: AnySize, length: int | None) -> int:
    """Return how often a loop runs at a length.

    Raises InvalidInputError where it is not known, too short for a turn or longer than any.
    """
    size = resolve_size(turns, length)
    count = evaluate(size, evaluate_monomials(1, length or 0))
    if not 1 <= count <= MAX_TURNS or (length is None and any(size[1:])):
        message = f"a loop of {count} turns at a length of {length}"
        raise InvalidInputError(message)
    return count
