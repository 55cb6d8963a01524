"""Attention of one rank: Transformer Engine's kernels and saved tensors."""

from dataclasses import dataclass

from service.estimator.backends.megatron.operations import BF16, allocate_saved, tokens
from service.estimator.backends.megatron.shape import RankShape, Switches
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Checkpointing


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreAttention:
    """Widths of attention's inputs and outputs on one rank."""

    heads: int
    query: int
    keys_values: int
    output: int
    context_parallel: int
    dropout: bool

    @property
    def scores(self) -> Size:
        """Elements of the attention scores.

        They are this rank's queries by the keys of all context ranks.
        """
        return sizes.per_score(self.heads * self.context_parallel)


def build_core_attention(shape: RankShape) -> CoreAttention:
    """Return the widths of a rank's attention."""
    latent = shape.latent
    query, keys_values, output = shape.query, 2 * shape.key, shape.query
    if latent is not None:
        query = shape.heads * (latent.nope_dim + latent.rope_dim)
        keys_values, output = query + shape.heads * latent.value_dim, shape.heads * latent.value_dim
    return CoreAttention(
        heads=shape.heads,
        query=query,
        keys_values=keys_values,
        output=output,
        context_parallel=shape.context_parallel,
        dropout=shape.attention_dropout > 0,
    )


def attend(tape: Tape, fused: Value, core: CoreAttention, switches: Switches) -> Value:
    """Record attention and return what queries read.

    ``fused`` holds query, key and value, and is what backward keeps.
    """
    if switches.checkpointing is Checkpointing.SELECTIVE:
        return _attend_recomputed(tape, fused, core, switches)
    return (
        _attend_unfused(tape, fused, core)
        if switches.unfused
        else _attend_flash(tape, fused, core, copies=switches.copies_output)
    )


def _attend_flash(tape: Tape, fused: Value, core: CoreAttention, *, copies: bool) -> Value:
    """Record flash attention.

    Query, key, value, the output and fp32 row sums are kept; a copied output is a second tensor.
    """
    sums = allocate_saved(tape, tokens(4 * core.heads))
    received = [
        tape.scratch(tokens(core.keys_values), BF16) for _ in range(2 * (core.context_parallel > 1))
    ]

    def backward(_: Storage) -> None:
        fp32_gradient = tape.scratch(tokens(core.query), DType.FP32)
        parts = tape.scratch(fused.numel, BF16)
        ring_buffers = [
            tape.scratch(tokens(2 * core.keys_values), BF16)
            for _ in range(2 * (core.context_parallel > 1))
        ]
        grad = tape.scratch(fused.numel, BF16)
        tape.release(fp32_gradient, parts, *ring_buffers)
        tape.send(fused, grad)

    y = tape.emit(
        tokens(core.output),
        BF16,
        inputs=(fused,),
        saves=(fused, sums),
        saves_output=True,
        backward=backward,
    )
    tape.free(sums)
    tape.release(*received)
    if not copies:
        return y
    copy = tape.emit(
        y.numel, BF16, inputs=(y,), backward=lambda _: tape.send(y, tape.scratch(y.numel, BF16))
    )
    tape.free(y)
    return copy


def _attend_unfused(tape: Tape, fused: Value, core: CoreAttention) -> Value:
    """Record unfused attention (UnfusedDotProductAttention).

    It keeps the softmax, and with dropout its mask and its result.
    """
    scores = tape.scratch(core.scores, BF16)
    saved = [allocate_saved(tape, sizes.scale(core.scores, 2))]
    if core.dropout:
        saved += [
            allocate_saved(tape, core.scores),
            allocate_saved(tape, sizes.scale(core.scores, 2)),
        ]

    def backward(_: Storage) -> None:
        _allocate_score_gradients(tape, core)
        tape.send(fused, tape.scratch(fused.numel, BF16))

    y = tape.emit(
        tokens(core.output), BF16, inputs=(fused,), saves=(fused, *saved), backward=backward
    )
    tape.release(scores)
    tape.free(*saved)
    return y


def _attend_recomputed(tape: Tape, fused: Value, core: CoreAttention, switches: Switches) -> Value:
    """Record attention whose core is recomputed in backward.

    (Selective recomputation, arXiv:2205.05198, section 5.)
    """

    def allocate_core() -> list[Storage]:
        buffers = [tape.scratch(tokens(core.output), BF16)]
        if not switches.unfused:
            return [*buffers, tape.scratch(tokens(2 * core.heads), BF16)]
        widths = (2, 2, 1, 2) if core.dropout else (2, 2)
        return [
            *buffers,
            *(
                tape.allocate(buffers[0].category, sizes.scale(core.scores, width))
                for width in widths
            ),
        ]

    def backward(_: Storage) -> None:
        buffers = allocate_core()
        if switches.unfused:
            _allocate_score_gradients(tape, core)
        grad = tape.scratch(fused.numel, BF16)
        tape.release(*buffers)
        tape.send(fused, grad)

    buffers = allocate_core()
    y = tape.emit(tokens(core.output), BF16, inputs=(fused,), saves=(fused,), backward=backward)
    tape.release(*buffers)
    return y


def _allocate_score_gradients(tape: Tape, core: CoreAttention) -> None:
    first = tape.scratch(core.scores, BF16)
    second = tape.scratch(core.scores, BF16)
    tape.release(first, second)
