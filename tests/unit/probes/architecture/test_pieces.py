"""Recordings in pieces: windows, one sequence alone, lengths that kernels round."""

from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.recorded.architecture import build_recorded
from service.estimator.model.recorded.decoding import decode_recording
from service.estimator.model.recorded.encoding import encode_recording
from service.estimator.model.recorded.recorded_model import RecordedModel
from service.estimator.tape.programs.recorded_pass import WHOLE, Domain
from service.estimator.tape.programs.stepped_sizes import SteppedSize, resolve_size
from service.estimator.tape.sizes import ZERO, evaluate, evaluate_monomials
from service.estimator.values.errors import InvalidInputError
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from tests.traces.recording import record_kept
from worker.probes.architecture.check import compute_peak
from worker.probes.architecture.extents import choose_checked, list_hearings
from worker.probes.architecture.hearing import Hearing, OtherOperationsError
from worker.probes.architecture.listening.listen import Extent
from worker.probes.architecture.listening.variants import VARIANTS
from worker.probes.architecture.pieces import PieceMaker, unify_kinds
from worker.probes.architecture.polynomials import FEW, PROVED, NoPolynomial, fit_size
from worker.probes.architecture.programs import LoweredPass

_WINDOW = 160
CONFIG = {
    "model_type": "mistral",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
    "sliding_window": _WINDOW,
    "vocab_size": 100,
}
HALF = VARIANTS["half"]
ROUNDED = SteppedSize(plain=ZERO, tokens=32, begun=True, steps=(0, 128, 0, 0, 0, 0))
"""Four bytes for each sequence and each token of a length that is rounded up to 32."""


@pytest.fixture(scope="module")
def windowed() -> RecordedModel:
    """Return a recording of a model with a window."""
    return record_kept(CONFIG, "half")


def test_a_window_divides_a_recording(windowed: RecordedModel) -> None:
    """One piece is of shorter sequences; each equals the written family on its side."""
    written, recorded = architecture_from_config(CONFIG), build_recorded(windowed)
    below, beyond = Extent(batch=3, length=_WINDOW - 1), Extent(batch=3, length=2 * _WINDOW)

    peaks = [compute_peak(recorded, HALF, extent) for extent in (below, beyond)]

    assert peaks == [
        compute_peak(written, HALF, below),
        compute_peak(written, HALF, beyond, window_reached=True),
    ]
    assert windowed.passes["half"].domain == Domain(max_length=_WINDOW - 1)
    assert all(part.domain.min_length in {1, _WINDOW} for part in windowed.passes.values())


def test_pieces_are_written_with_where_they_hold(windowed: RecordedModel) -> None:
    """A document that is read back has the same pieces."""
    assert decode_recording(encode_recording(windowed)).passes == windowed.passes


def test_older_documents_say_where_all_passes_hold(windowed: RecordedModel) -> None:
    """Limits of the whole document are those of each of its passes."""
    part = replace(windowed.passes["half"], domain=WHOLE)
    document = encode_recording(replace(windowed, passes={"half": part}))
    limits: dict[str, Any] = {"min_batch": 2, "max_length": 99, "length_step": 64}

    domain = decode_recording(document | limits).passes["half"].domain

    assert domain == Domain(min_batch=2, max_length=99, multiple_of=64)


def test_a_rounded_length_is_a_size_in_steps() -> None:
    """What 32 tokens round up is told from what 8 or 64 do, and is right at other lengths."""
    extents = (*FEW, PROVED)
    counts = [128 * e.batch * -(-e.length // 32) for e in extents]

    size = fit_size(counts, extents)

    assert size == ROUNDED
    assert evaluate(resolve_size(size, 1000), evaluate_monomials(7, 1000)) == 7 * 4 * 1024


def test_steps_need_a_length() -> None:
    """A polynomial says nothing of them."""
    with pytest.raises(InvalidInputError, match="length"):
        resolve_size(ROUNDED, None)


def test_a_size_of_two_unknown_products_is_refused() -> None:
    """Three extents do not prove one coefficient more."""
    extents = (*FEW, PROVED)

    with pytest.raises(NoPolynomial):
        fit_size([6 * e.batch * e.length + 8 * e.batch + 1 for e in extents], extents)


@pytest.mark.parametrize("length", [100, 96, 95])
def test_a_domain_has_its_lengths(length: int) -> None:
    """Bounds, multiples and batches are all held."""
    domain = Domain(min_batch=2, min_length=96, max_length=128, multiple_of=32)

    assert domain.has(batched=True, length=length) is (length == 96)
    assert not domain.has(batched=False, length=length)


@pytest.mark.parametrize(
    "domain",
    [
        WHOLE,
        Domain(max_length=255),
        Domain(min_length=257),
        Domain(min_length=300, multiple_of=64),
        Domain(no_multiple_of=8, max_batch=1),
    ],
)
def test_passes_that_are_listened_to_lie_in_their_domain(domain: Domain) -> None:
    """What is checked is none of them."""
    hearings = list(list_hearings(domain, (128, 4096)))

    extents = [extent for part in hearings for extent in part.extents]
    assert extents
    assert all(domain.has(batched=e.batch > 1, length=e.length) for e in extents)
    checked = choose_checked(domain)
    assert domain.has(batched=domain.max_batch != 1, length=checked)
    assert checked not in {extent.length for extent in hearings[0].extents}


class TurningHearing:
    """A model that turns to other operations at a length."""

    def __init__(self, turn: int) -> None:
        """Turn at ``turn``."""
        self.turn = turn

    def sign(self, extent: Extent) -> object:
        """Return which operations run."""
        return extent.length >= self.turn

    def count_turns(self, short: Extent, long: Extent) -> int:  # noqa: ARG002 - as a hearing has it
        """Return that it has no loop."""
        return 0

    def listen(self, extents: tuple[Extent, ...]) -> object:
        """Refuse extents on both sides."""
        if len({extent.length >= self.turn for extent in extents}) > 1:
            raise OtherOperationsError(FailureKind.UNSUPPORTED, "other operations")
        return extents


@dataclass(frozen=True, kw_only=True)
class _Lowered:
    """What of a recorded pass its kinds and pieces ask."""

    blocks: tuple[str, ...]
    block_inputs: tuple[str, ...]
    domain: Domain


def make_pass(*kinds: int, domain: Domain = WHOLE) -> LoweredPass:
    """Return a pass whose layers are of these kinds."""
    blocks = tuple(f"block {kind}" for kind in range(max(kinds, default=-1) + 1))
    recorded = _Lowered(blocks=blocks, block_inputs=blocks, domain=domain)
    return LoweredPass(recorded=cast(Any, recorded), kinds=kinds, prefix="layers.")


@pytest.mark.parametrize("turn", [1000, 1001])
def test_the_length_at_which_a_model_turns_is_found(turn: int) -> None:
    """It is the number in its config or the next."""
    maker = PieceMaker(
        hearing=cast(Hearing, TurningHearing(turn)),
        lower=lambda _passes, _head: make_pass(),
        head=None,
        check=lambda lowered: lowered,
        thresholds=(1000,),
    )

    domains = [piece.recorded.domain for piece in maker.make(WHOLE)]

    assert domains == [Domain(max_length=turn - 1), Domain(min_length=turn)]


def test_a_model_that_turns_where_no_number_says_is_refused() -> None:
    """No piece has lengths at which nothing was heard."""
    maker = PieceMaker(
        hearing=cast(Hearing, TurningHearing(100)),
        lower=lambda _passes, _head: make_pass(),
        head=None,
        check=lambda lowered: lowered,
        thresholds=(),
    )

    with pytest.raises(Refusal, match="other operations"):
        maker.make(WHOLE)


def test_layers_that_differ_in_one_pass_are_kinds_of_all() -> None:
    """Beyond a window two kinds run what are equal layers below it."""
    lowered = {"half": make_pass(0, 0, 0), "half+1": make_pass(0, 1, 0)}

    unified = unify_kinds(lowered)

    assert unified is not None
    assert [part.kinds for part in unified.values()] == [(0, 1, 0)] * 2
    assert [part.recorded.blocks for part in unified.values()] == [
        cast(Any, ("block 0", "block 0")),
        cast(Any, ("block 0", "block 1")),
    ]
    assert unify_kinds(lowered | {"other": make_pass(0)}) is None
