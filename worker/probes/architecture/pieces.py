"""Passes in pieces: batches and lengths between which a model's operations differ."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from transformers import PreTrainedConfig

from service.estimator.model.recorded.inputs import RecordedInput
from service.estimator.tape.programs.recorded_pass import WHOLE, Domain
from service.estimator.values.units import ceil_div
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.architecture.extents import STEP, list_hearings
from worker.probes.architecture.hearing import Hearing, OtherOperationsError
from worker.probes.architecture.listening.listen import Extent, Phase
from worker.probes.architecture.lowering import Passes
from worker.probes.architecture.polynomials import NoPolynomial
from worker.probes.architecture.programs import LoweredPass

Lower = Callable[[Passes, str | None], LoweredPass]
Check = Callable[[LoweredPass], LoweredPass]
"""Returns a piece that a plain pass of the model has proved, or raises Refusal."""
_LIMITING = re.compile(r"window|chunk|block_size|local_attention|topk|compress|stride|segment")
"""Names of config fields with a number of tokens at which a model may turn to other operations."""
_COUNTING = re.compile(r"^(num|max|n)_|pattern|layers|_heads$|dim$")
"""Names among them that count something else."""
_MOST_TOKENS = 2**17
_FEW_STEPS = 3
"""Steps of a length at which a loop over chunks has run some of its turns."""
_MOST_FEW = 8
"""Chunks that a loop has before one of them is a turn like the others, at most."""
_RESTS = (32, 16, 8, 4, 2)
"""Rests of a length that is no multiple of ``STEP`` but of a lesser power of two."""


def list_thresholds(hf_config: PreTrainedConfig) -> tuple[int, ...]:
    """Return the lengths at which a model may run other operations."""
    numbers = {
        value
        for config in (hf_config, hf_config.get_text_config())
        for name, value in vars(config).items()
        if _LIMITING.search(name) and not _COUNTING.search(name)
        if type(value) is int and 1 < value <= _MOST_TOKENS
    }
    return tuple(sorted(numbers))


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceMaker:
    """Lowers the passes of one variant, one piece after another."""

    hearing: Hearing
    lower: Lower
    head: str | None
    check: Check
    thresholds: tuple[int, ...]

    def make(self, domain: Domain) -> list[LoweredPass]:
        """Return the pieces of a domain.

        Lengths that none of them has are left out. Raises Refusal where there are no pieces.
        """
        pieces, refusal = [], None
        for part in self._make_whole(domain):
            if isinstance(part, Refusal):
                refusal = part
            else:
                pieces.append(part)
        if not pieces:
            assert refusal is not None  # noqa: S101 - there are pieces or a refusal
            raise refusal
        return pieces

    def _make_whole(self, domain: Domain) -> Iterator[LoweredPass | Refusal]:
        """Yield the one piece of a domain, or those of its parts."""
        try:
            yield self._try(domain)
        except (NoPolynomial, OtherOperationsError) as error:
            parts = self._divide(domain)
            if not parts:
                yield error
            for part in parts:
                yield from self._make_whole(part)

    def _try(self, domain: Domain) -> LoweredPass:
        """Return a piece of a whole domain.

        Raises Refusal where its passes are not the same operations.
        """
        refusal: Refusal | None = None
        for hearings in list_hearings(domain, self.thresholds):
            try:
                lowered = self.lower(self.hearing.listen(hearings.extents), self.head)
            except NoPolynomial as error:
                refusal = error
            except OtherOperationsError as error:
                refusal = error
                break  # More extents would not be the same operations either.
            else:
                recorded = replace(lowered.recorded, domain=hearings.domain)
                try:
                    return self.check(replace(lowered, recorded=recorded))
                except Refusal as error:
                    # Few extents may be met by another size than the model's.
                    refusal = error
        if refusal is None:
            message = f"lengths from {domain.min_length} to {domain.max_length} are too few"
            refusal = NoPolynomial(FailureKind.UNSUPPORTED, message)
        raise refusal

    def _divide(self, domain: Domain) -> list[Domain]:
        """Return the parts of a domain."""
        chunks = self._divide_by_chunks(domain)
        if chunks:
            return chunks
        bounds = sorted(
            {
                self._find_turn(domain, threshold)
                for threshold in self.thresholds
                if domain.min_length < threshold < (domain.max_length or _MOST_TOKENS)
            }
        )
        starts = [domain.min_length, *bounds]
        ends = [*(bound - 1 for bound in bounds), domain.max_length]
        if not bounds:
            return self._divide_by_rest(domain)
        return [
            replace(domain, min_length=start, max_length=end)
            for start, end in zip(starts, ends, strict=True)
        ]

    def _divide_by_chunks(self, domain: Domain) -> list[Domain]:
        """Return the lengths of few chunks, and those of more.

        Further chunks are turns of a loop. What pads the last chunk runs other operations where it
        is full. Training on few chunks, of which the last is not full, is left out: it would take
        as long to record as all of the others.
        """
        if domain != Domain(min_batch=domain.min_batch, max_batch=domain.max_batch):
            return []
        turns = self._count_turns(domain, STEP, _FEW_STEPS)
        if not turns:
            return []
        chunk = max(STEP // turns, 1)
        few = next(
            (n for n in range(1, _MOST_FEW) if self._count_turns(domain, chunk, n)), _MOST_FEW
        )
        shorter = range(chunk, (few + 1) * chunk, chunk)
        end = (_FEW_STEPS + 1) * STEP
        if self._sign(domain, end) == self._sign(domain, end - STEP + 1):
            parts = [
                replace(domain, min_length=full - chunk + 1, max_length=full) for full in shorter
            ]
            return [*parts, replace(domain, min_length=few * chunk + 1)]
        parts = [
            replace(domain, min_length=few * chunk + 1, no_multiple_of=chunk),
            replace(domain, min_length=(few + 1) * chunk, multiple_of=chunk),
        ]
        for full in shorter:
            parts.append(replace(domain, min_length=full, max_length=full))
            if self.hearing.variant.phase is not Phase.STEP:
                parts.append(replace(domain, min_length=full - chunk + 1, max_length=full - 1))
        return parts

    def _count_turns(self, domain: Domain, tokens: int, steps: int) -> int:
        """Return the turns that loops take in one more step."""
        batch = 1 if domain.max_batch == 1 else 2
        short, long = (Extent(batch=batch, length=tokens * n + 1) for n in (steps, steps + 1))
        return self.hearing.count_turns(short, long)

    def _divide_by_rest(self, domain: Domain) -> list[Domain]:
        """Return the multiples of a power of two, and what lies between."""
        if domain.multiple_of > 1 or domain.no_multiple_of or domain.max_length is not None:
            return []
        start = ceil_div(domain.min_length, STEP) * STEP
        even, *signs = (self._sign(domain, start + STEP + tokens) for tokens in (STEP, *_RESTS, 1))
        alike = [tokens for tokens, sign in zip(_RESTS, signs, strict=False) if sign == even]
        if even == signs[-1]:
            return []
        multiple = min(alike, default=STEP)
        return [
            replace(domain, multiple_of=multiple),
            replace(domain, no_multiple_of=multiple),
        ]

    def _sign(self, domain: Domain, length: int) -> object:
        return self.hearing.sign(Extent(batch=1 if domain.max_batch == 1 else 2, length=length))

    def _find_turn(self, domain: Domain, threshold: int) -> int:
        """Return the first length of other operations, the threshold or the next.

        Lengths with the same rest are compared, as kernels pad others.
        """
        near, far = self._sign(domain, threshold), self._sign(domain, threshold + STEP)
        return threshold if near == far else threshold + 1


def name_pieces(name: str, pieces: Sequence[LoweredPass]) -> Iterator[tuple[str, LoweredPass]]:
    """Yield the pieces of a variant with their names."""
    for place, part in enumerate(pieces):
        yield (f"{name}+{place}" if place else name), part


def unify_kinds(lowered: Mapping[str, LoweredPass]) -> dict[str, LoweredPass] | None:
    """Return passes whose layers are of the same kinds.

    Layers that are alike in one pass may differ in another, as beyond a window. None where the
    passes do not run the same layers.
    """
    parts = list(lowered.values())
    if len({(part.prefix, len(part.kinds)) for part in parts}) > 1:
        return None
    keys = list(zip(*(part.kinds for part in parts), strict=True))
    distinct = list(dict.fromkeys(keys))
    kinds = tuple(distinct.index(key) for key in keys)
    return {
        name: _spread(part, kinds, [key[place] for key in distinct])
        for place, (name, part) in enumerate(lowered.items())
    }


def _spread(part: LoweredPass, kinds: tuple[int, ...], sources: Sequence[int]) -> LoweredPass:
    """Return a pass with a block for each kind of all passes."""
    recorded = part.recorded
    blocks = tuple(recorded.blocks[source] for source in sources)
    inputs = tuple(recorded.block_inputs[source] for source in sources)
    return replace(
        part, kinds=kinds, recorded=replace(recorded, blocks=blocks, block_inputs=inputs)
    )


def choose_domain(reads: RecordedInput | None) -> Domain:
    """Return the lengths of a model, two steps of audio at least."""
    if reads is None or not reads.grows:
        return WHOLE if reads is None else Domain(max_length=1)
    return Domain(min_length=2)


def make_pieces(maker: PieceMaker, start: Domain) -> list[LoweredPass]:
    """Return the pieces of several sequences and of one."""
    pieces = maker.make(start)
    for part in list(pieces):
        domain = part.recorded.domain
        if domain.min_batch > 1:
            with suppress(Refusal):
                pieces += maker.make(replace(domain, min_batch=1, max_batch=1))
    return pieces
