"""Attention of one rank: Transformer Engine's kernels, and what they keep."""

from dataclasses import dataclass

from service.estimator.backends.megatron.operations import BF16, kept_bytes, tokens
from service.estimator.backends.megatron.shape import Shape, Switches
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Checkpointing


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """Widths of what attention reads and gives on one rank."""

    heads: int
    query: int
    keys_values: int
    output: int
    context_parallel: int
    dropout: bool

    @property
    def scores(self) -> Size:
        """Elements of the scores: this rank's queries by the keys of all context ranks."""
        return sizes.per_score(self.heads * self.context_parallel)


def core_of(shape: Shape) -> Core:
    """Return the widths of a rank's attention."""
    latent = shape.latent
    query, keys_values, output = shape.query, 2 * shape.key, shape.query
    if latent is not None:
        query = shape.heads * (latent.passed + latent.turned)
        keys_values, output = query + shape.heads * latent.value, shape.heads * latent.value
    return Core(
        heads=shape.heads,
        query=query,
        keys_values=keys_values,
        output=output,
        context_parallel=shape.context_parallel,
        dropout=shape.attention_dropout > 0,
    )


def attended(tape: Tape, fused: Value, core: Core, how: Switches) -> Value:
    """Return what queries read; ``fused`` holds query, key and value, and is what backward keeps."""
    if how.checkpointing is Checkpointing.SELECTIVE:
        return _recomputed(tape, fused, core, how)
    return _unfused(tape, fused, core) if how.unfused else _flash(tape, fused, core, copies=how.copies_output)


def _flash(tape: Tape, fused: Value, core: Core, *, copies: bool) -> Value:
    """Return flash attention: q, k, v, the output and fp32 row sums are kept; a copied output is a second tensor."""
    sums = kept_bytes(tape, tokens(4 * core.heads))
    others = [tape.scratch(tokens(core.keys_values), BF16) for _ in range(2 * (core.context_parallel > 1))]

    def backward(_: Storage) -> None:
        accumulator = tape.scratch(tokens(core.query), DType.FP32)
        parts = tape.scratch(fused.numel, BF16)
        ring = [tape.scratch(tokens(2 * core.keys_values), BF16) for _ in range(2 * (core.context_parallel > 1))]
        grad = tape.scratch(fused.numel, BF16)
        tape.release(accumulator, parts, *ring)
        tape.send(fused, grad)

    y = tape.emit(tokens(core.output), BF16, inputs=(fused,), saves=(fused, sums), saves_output=True, backward=backward)
    tape.free(sums)
    tape.release(*others)
    if not copies:
        return y
    again = tape.emit(y.numel, BF16, inputs=(y,), backward=lambda _: tape.send(y, tape.scratch(y.numel, BF16)))
    tape.free(y)
    return again


def _unfused(tape: Tape, fused: Value, core: Core) -> Value:
    """Return unfused attention: the softmax, and with dropout its mask and its result (UnfusedDotProductAttention)."""
    scores = tape.scratch(core.scores, BF16)
    kept = [kept_bytes(tape, sizes.scale(core.scores, 2))]
    if core.dropout:
        kept += [kept_bytes(tape, core.scores), kept_bytes(tape, sizes.scale(core.scores, 2))]

    def backward(_: Storage) -> None:
        _score_gradients(tape, core)
        tape.send(fused, tape.scratch(fused.numel, BF16))

    y = tape.emit(tokens(core.output), BF16, inputs=(fused,), saves=(fused, *kept), backward=backward)
    tape.release(scores)
    tape.free(*kept)
    return y


def _recomputed(tape: Tape, fused: Value, core: Core, how: Switches) -> Value:
    """Return attention whose core is computed again in backward (selective recomputation, arXiv:2205.05198, section 5)."""

    def inner() -> list[Storage]:
        made = [tape.scratch(tokens(core.output), BF16)]
        if not how.unfused:
            return [*made, tape.scratch(tokens(2 * core.heads), BF16)]
        widths = (2, 2, 1, 2) if core.dropout else (2, 2)
        return [*made, *(tape.allocate(made[0].category, sizes.scale(core.scores, width)) for width in widths)]

    def backward(_: Storage) -> None:
        made = inner()
        if how.unfused:
            _score_gradients(tape, core)
        grad = tape.scratch(fused.numel, BF16)
        tape.release(*made)
        tape.send(fused, grad)

    made = inner()
    y = tape.emit(tokens(core.output), BF16, inputs=(fused,), saves=(fused,), backward=backward)
    tape.release(*made)
    return y


def _score_gradients(tape: Tape, core: Core) -> None:
    first = tape.scratch(core.scores, BF16)
    second = tape.scratch(core.scores, BF16)
    tape.release(first, second)
