"""Batches and lengths at which a model is listened to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.estimator.tape.programs.recorded_pass import Domain
from service.estimator.values.units import ceil_div
from worker.probes.architecture.listening.listen import Extent

STEP = 64
"""Tokens of which the first length of a domain is a multiple."""
_PROOFS = (257, 193, 129, 97, 65, 33, 17)
"""Lengths that powers of two round up to different numbers, all of them odd."""
_MORE = (0.75, 0.39, 1.17, 0.63, 1.55)
"""Further lengths, as parts of that one."""
_SOME = 5
"""Lengths at which a size of three terms is met by two more."""
_BATCHES = (2, 3, 5)
_CHECKED = (203, 171, 115, 83, 45, 27, 13)
"""Lengths to which nothing is fitted, each below one of ``_PROOFS``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearings:
    """Extents that determine sizes, and where what they say holds."""

    extents: tuple[Extent, ...]
    domain: Domain


def list_hearings(domain: Domain, thresholds: Sequence[int]) -> Iterator[Hearings]:
    """Yield the hearings to try for a domain, short ones first.

    Few are enough where every size is one product, some where none has more than three terms. At
    each of ``thresholds`` a model may turn to other operations: one pass is beyond it, or before it
    where it is short.
    """
    if domain.min_length == domain.max_length:
        batches = (1,) if domain.max_batch == 1 else _BATCHES
        extents = tuple(Extent(batch=batch, length=domain.min_length) for batch in batches)
        yield Hearings(extents=extents, domain=domain)
    base, proof = _find_base(domain)
    if proof is None:
        return
    far = tuple(dict.fromkeys(_cross(domain, base + proof, thresholds)))
    few = (base + (proof - 1) // 4, base + (proof - 1) // 2, base + proof)
    more = (base + (round(part * proof) | 1) for part in _MORE)
    full = (*few, *(length for length in more if length <= (domain.max_length or length)))
    for lengths in dict.fromkeys((few, full[:_SOME], full)):
        fitting: list[int] = []
        for length in dict.fromkeys((*lengths, *far)):
            fitting.append(_fit_rest(length, domain, fitting))
        yield Hearings(extents=pair(fitting, domain), domain=domain)


def _fit_rest(length: int, domain: Domain, used: Sequence[int] = ()) -> int:
    """Return the next length of a domain that is not ``used``."""
    if domain.no_multiple_of and length % domain.no_multiple_of == 0:
        return length + 1
    fitting = ceil_div(length, domain.multiple_of) * domain.multiple_of
    while fitting in used:
        fitting += domain.multiple_of
    return fitting


def _find_base(domain: Domain) -> tuple[int, int | None]:
    """Return where lengths of a domain begin, and the longest beyond."""
    base = (domain.min_length - 1) // STEP * STEP if domain.min_length > 1 else 0
    base += STEP if domain.min_length > 1 and base + 1 < domain.min_length else 0
    span = (domain.max_length or base + 2 * _PROOFS[0]) - base
    return base, next((length for length in _PROOFS if length <= span), None)


def _cross(domain: Domain, longest: int, thresholds: Sequence[int]) -> Iterator[int]:
    """Yield the shortest length, and those beyond thresholds.

    At the shortest a loop has one turn.
    """
    if domain.min_length > 1 and domain.max_length is None:
        yield domain.min_length
    for threshold in thresholds:
        if threshold >= longest - STEP:
            length = threshold + STEP + 1
        elif threshold < STEP:
            length = threshold // 2 | 1
        else:
            continue
        if domain.min_length <= length <= (domain.max_length or length):
            yield length


def pair(lengths: Sequence[int], domain: Domain) -> tuple[Extent, ...]:
    """Return extents of the lengths, with batches of the domain."""
    batches = (1,) if domain.max_batch == 1 else _BATCHES
    return tuple(
        Extent(batch=batches[place % len(batches)], length=length)
        for place, length in enumerate(dict.fromkeys(lengths))
    )


def choose_checked(domain: Domain) -> int:
    """Return a length of a domain to which nothing was fitted."""
    base, proof = _find_base(domain)
    checked = dict(zip(_PROOFS, _CHECKED, strict=True))
    return domain.min_length if proof is None else _fit_rest(base + checked[proof], domain)
