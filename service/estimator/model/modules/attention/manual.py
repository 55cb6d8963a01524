"""Attention that a model writes out itself, with scores and softmax in fp32."""

from collections.abc import Callable

from service.estimator.model.recording import Recording
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, bytes_of
from service.estimator.tape.ops.elementwise import add_scalar, cast, chain, dropout, multiply_scalar, softmax
from service.estimator.tape.ops.products import autocast_input, batched_product, copy_of
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


def filled(run: Recording, numel: Size, dtype: DType) -> Value:
    """Return a tensor without gradient."""
    return Value(run.tape.allocate(Category.ACTIVATIONS, bytes_of(numel, dtype)), numel, dtype)


def attend_in_fp32(
    run: Recording, query: Value, key: Value, value: Value, *, num_heads: int, probability: float
) -> tuple[Value, Value]:
    """Return what queries read, and the probabilities (``_attn`` of GPT-J, CodeGen and GPT-Neo); the parts stay.

    Products copy sides that lie token after token, as for any batch beyond one; scores are scaled or masked by a buffer, and
    get a mask.
    """
    tape = run.tape
    # A cache has its heads one after another, and a single query has no other order.
    queries, keys = run.batched and not run.extent.decoding, run.batched and run.store is None
    upcast = [cast(tape, part, DType.FP32) for part in (query, key)]
    sides = [
        chain(tape, autocast_input(tape, part), _read(copies)) for part, copies in zip(upcast, (queries, keys), strict=True)
    ]
    scores = batched_product(tape, sides[0], sides[1], run.reach(None).scores(num_heads))
    tape.free(*sides)
    masked = chain(tape, chain(tape, scores, multiply_scalar), add_in_fp32)
    probabilities = chain(tape, masked, softmax)
    probabilities = chain(tape, probabilities, lambda t, p: cast(t, p, value.dtype))
    probabilities = chain(tape, probabilities, lambda t, p: dropout(t, p, probability))
    values = _read(keys)(tape, value)
    mixed = batched_product(tape, probabilities, values, query.numel)
    tape.free(values, *upcast)
    return mixed, probabilities


def _read(copies: bool) -> Callable[[Tape, Value], Value]:  # noqa: FBT001 - the only thing that there is to say
    """Return how a product reads a side."""
    return copy_of if copies else Tape.alias


def add_in_fp32(tape: Tape, x: Value) -> Value:
    """Return ``x`` plus an fp32 tensor without gradient."""
    return add_scalar(tape, x) if x.dtype is DType.FP32 else cast(tape, x, DType.FP32)
