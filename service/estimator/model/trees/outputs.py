"""Scales and casts of embeddings and logits."""

from service.estimator.model.architecture import EmbeddingOutput
from service.estimator.model.recording import Recording
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import cast, chain, multiply_scalar
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.values.dtypes import DType


def scale_embedding(ctx: Recording, tokens: Value) -> EmbeddingOutput:
    """Multiply embeddings by a constant; layers take the positions."""
    positions = allocate_integers(ctx.tape, ctx.shape.positions(1))
    return EmbeddingOutput(x=chain(ctx.tape, tokens, multiply_scalar), layer_args=(positions,))


def scale_logits(ctx: Recording, logits: Value) -> Value:
    """Multiply logits by a constant."""
    return chain(ctx.tape, logits, multiply_scalar)


def cast_logits(ctx: Recording, logits: Value) -> Value:
    """Cast logits to fp32."""
    return chain(ctx.tape, logits, lambda tape, value: cast(tape, value, DType.FP32))
