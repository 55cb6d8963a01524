"""Tensors of ``generate`` around a forward pass.

transformers 5.23, generation/utils.py: ``_sample`` and ``_beam_search``. Counters and flags of a
few bytes a sequence are left out.
"""

from service.estimator.model.recording import Recording
from service.estimator.passes.config import Generation
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

TOP_K = 50
"""Tokens that sampling chooses from (generation/configuration_utils.py, default of ``top_k``)."""
_BOOL_BYTES = 1


def hold_sequences(ctx: Recording, generation: Generation, num_positions: int) -> None:
    """Record the token ids and positions that ``generate`` keeps through a pass.

    In decode there are all ids so far and all positions, ``num_positions`` of each token where a
    model takes these; the pass itself gets copies of the last ones. Beams have their prompts
    expanded, and two tensors of whole sequences beside them.
    """
    tape, every_token = ctx.tape, sizes.per_token(1)
    allocate_integers(tape, sizes.per_sequence(1))  # whether a sequence has ended
    if ctx.shape.decoding:
        allocate_integers(tape, every_token)
        if ctx.shape.own_positions:
            allocate_integers(tape, sizes.per_token(num_positions))
        allocate_integers(tape, sizes.per_sequence(1))  # the tokens before
    if generation.num_beams > 1:
        for _ in range(3):
            allocate_integers(tape, every_token)


def hold_scores(ctx: Recording, generation: Generation, vocab_size: int) -> list[Storage]:
    """Record the scores of the step before, whose names live through decode.

    Greedy steps name one fp32 tensor of all logits, samples and beams more.
    """
    if not ctx.shape.decoding:
        return []
    row = sizes.per_sequence(vocab_size)
    size = count_bytes(row, DType.FP32)
    count = 2 if generation.num_beams > 1 else 3 if generation.samples else 1
    return [ctx.tape.allocate(Category.LOGITS, size) for _ in range(count)]


def choose_tokens(
    ctx: Recording, generation: Generation, logits: Value, vocab_size: int, previous: list[Storage]
) -> None:
    """Record the choice of every next token.

    ``logits`` are dropped. ``previous`` are the scores of the step before, in the order of their
    names, each of which is rebound.
    """
    tape, row = ctx.tape, sizes.per_sequence(vocab_size)
    scores = _make_scores(tape, row)  # copied even from fp32
    tape.release(*previous[:1])
    if generation.num_beams > 1:
        _extend_beams(tape, scores, logits, previous[1:])
        return
    names = [scores]
    if generation.samples:
        names += _sample(tape, scores, previous[1:])
    allocate_integers(tape, sizes.per_sequence(1))
    tape.free(logits, *names)


def _sample(tape: Tape, scores: Value, previous: list[Storage]) -> list[Value]:
    """Return the scores of the likeliest tokens, and their probabilities.

    (``TopKLogitsWarper``, ``softmax`` and ``multinomial``, which draws from a copy.)
    """
    chosen = sizes.per_sequence(TOP_K)
    largest, indices = _make_scores(tape, chosen), allocate_integers(tape, chosen)
    tape.free(indices)
    below = allocate_integers(tape, scores.numel, bytes_each=_BOOL_BYTES)
    tape.free(largest)
    kept = _make_scores(tape, scores.numel)
    tape.free(below)
    tape.release(*previous[:1])
    probabilities = _make_scores(tape, scores.numel)
    tape.release(*previous[1:])
    tape.free(_make_scores(tape, scores.numel))
    return [kept, probabilities]


def _extend_beams(tape: Tape, scores: Value, logits: Value, previous: list[Storage]) -> None:
    """Record log-probabilities, and their sums with those of the beams."""
    likely = _make_scores(tape, scores.numel)
    tape.release(*previous)
    tape.free(logits)
    summed = _make_scores(tape, scores.numel)
    tape.free(likely, summed, scores)


def _make_scores(tape: Tape, numel: Size) -> Value:
    return Value(tape.allocate(Category.LOGITS, count_bytes(numel, DType.FP32)), numel, DType.FP32)
