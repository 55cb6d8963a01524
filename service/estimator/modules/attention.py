"""Self-attention: separate or fused projections, grouped heads, rotary positions, norms on query and key."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.dtypes import DType
from service.estimator.modules.weights import Linear, Norm, Weight
from service.estimator.recording import Recording
from service.estimator.tape import kernels
from service.estimator.tape.elementwise import chain, dropout, rotate
from service.estimator.tape.kernels import Heads
from service.estimator.tape.nodes import Value
from service.estimator.tape.products import autocast_input, split
from service.estimator.workload import Attention as Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Attention of one block; ``projections`` are (q, k, v) or one fused layer."""

    projections: tuple[Linear, ...]
    output: Linear
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rotary: bool = True
    query_norm: Norm | None = None
    key_norm: Norm | None = None
    upcast_softmax: bool = True
    dropout: float = 0.0
    output_dropout: float = 0.0
    sliding_window: int | None = None

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return (*self.projections, self.output)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for layer in self.linears():
            yield from layer.weights()
        for norm in (self.query_norm, self.key_norm):
            if norm is not None:
                yield from norm.weights()

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return 2 * self.num_kv_heads * self.head_dim

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the block's attention; ``x`` stays with the caller."""
        tape = run.tape
        query, key, value = self._projected(run, x, scope)
        if self.rotary:
            rotated = rotate(tape, query, run.table_dtype), rotate(tape, key, run.table_dtype)
            tape.free(query, key)
            query, key = rotated
        key, value = run.cached(key, value, self.num_kv_heads * self.head_dim)
        mixed = self._mixed(run, query, key, value)
        result = run.linear(self.output, mixed, scope)
        tape.free(mixed, query, key, value)
        return chain(tape, result, lambda t, y: dropout(t, y, self.output_dropout))

    def _projected(self, run: Recording, x: Value, scope: str) -> tuple[Value, Value, Value]:
        if len(self.projections) == 1:
            return _split(run, run.linear(self.projections[0], x, scope))
        query, key, value = (run.linear(layer, x, scope) for layer in self.projections)
        if self.query_norm is not None and self.key_norm is not None:
            query = _normalised(run, self.query_norm, query, scope, self.num_heads)
            key = _normalised(run, self.key_norm, key, scope, self.num_kv_heads)
        return query, key, value

    def _mixed(self, run: Recording, query: Value, key: Value, value: Value) -> Value:
        tape = run.tape
        heads = Heads(
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            rows=run.extent.tokens(self.num_heads),
            scores=run.extent.scores(self.num_heads),
            dropout=self.dropout,
        )
        q, k, v = (autocast_input(tape, part) for part in (query, key, value))
        kernel = choose_kernel(run.attention, q.dtype, grouped=heads.grouped)
        if kernel is Kernel.EAGER:
            mixed = kernels.eager(tape, q, k, v, heads, upcast=self.upcast_softmax)
        elif kernel is Kernel.MATH:
            mixed = kernels.math(tape, q, k, v, heads)
        elif kernel is Kernel.EFFICIENT:
            k, v = (chain(tape, part, lambda t, x: kernels.repeated(t, x, q)) for part in (k, v))
            mixed = kernels.efficient(tape, q, k, v, heads)
        else:
            mixed = kernels.flash(tape, q, k, v, heads)
        tape.free(q, k, v)
        return mixed


def choose_kernel(asked: Kernel, dtype: DType, *, grouped: bool) -> Kernel:
    """Return the kernel that CUDA's SDPA takes for causal attention without a mask.

    Flash needs a 16-bit dtype; the memory-efficient kernel cannot group heads, which leaves the math kernel.
    """
    if asked is not Kernel.SDPA:
        return asked
    if dtype is not DType.FP32:
        return Kernel.FLASH
    return Kernel.MATH if grouped else Kernel.EFFICIENT


def _normalised(run: Recording, norm: Norm, x: Value, scope: str, num_heads: int) -> Value:
    y = run.norm(norm, x, scope, rows=run.extent.tokens(num_heads))
    run.tape.free(x)
    return y


def _split(run: Recording, fused: Value) -> tuple[Value, Value, Value]:
    """Return query, key and value as views of a fused projection of three equal parts."""
    a, b, c, d, e, f = fused.numel
    third = (a // 3, b // 3, c // 3, d // 3, e // 3, f // 3)
    query, key, value = split(run.tape, fused, (third, third, third))
    return query, key, value
