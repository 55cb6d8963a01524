"""Low-rank adapters on stacks of experts and their routers, as PEFT 0.21 makes them where transformers 5 merged old layers.

``peft/utils/transformers_weight_conversion.py`` says which words stand for which merged parameter, ``ParamWrapper`` in
``peft/tuners/lora/layer.py`` how one is adapted: the whole stack plus its update is a new tensor in every forward.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from service.estimator.model.weights.tensors import Weight
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Parameter, Value, value_of
from service.estimator.tape.ops.elementwise import cast, chain, multiply_scalar
from service.estimator.tape.ops.products import batched_product
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Lora

ALPHA = 8
"""PEFT's default ``lora_alpha``: at this rank the update is not scaled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedWords:
    """The words for a router, for the two projections that one stack holds, and for the other stack."""

    router: str
    gate_up: tuple[str, str]
    down: str

    @property
    def words(self) -> frozenset[str]:
        """All of them: none names a linear layer any more, not even where a shared expert has one of that name."""
        return frozenset({self.router, *self.gate_up, self.down})


_PROJECTIONS = MergedWords(router="gate", gate_up=("gate_proj", "up_proj"), down="down_proj")
MERGED = {
    "mixtral": MergedWords(router="gate", gate_up=("w1", "w3"), down="w2"),
    "qwen3_moe": _PROJECTIONS,
    "qwen3_next": _PROJECTIONS,
    "olmoe": _PROJECTIONS,
    "glm4_moe": _PROJECTIONS,
    "deepseek_v2": _PROJECTIONS,
    "deepseek_v3": _PROJECTIONS,
}
"""The families whose targets PEFT converts; others keep their stacks unadapted."""
_CONVERTED = ("lora", "rslora", "dora")
"""Kinds of adapters whose targets are converted (``PeftType.LORA``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks:
    """Ranks of the adapters on a router and on both stacks, 0 for none; no linear layer is adapted by one of ``words``."""

    router: int
    gate_up: int
    down: int
    dtype: DType
    words: frozenset[str]

    def rank_of(self, weight: Weight) -> int:
        """Return the rank of the adapter on a parameter of a layer with experts."""
        if weight.kind == "router" and weight.name.endswith(".gate.weight"):
            return self.router
        if weight.kind != "mlp_experts":
            return 0
        return self.gate_up if weight.name.endswith("gate_up_proj") else self.down

    def factors(self, weight: Weight) -> tuple[Weight, ...]:
        """Return A, rank x in, and B, out x rank, for every expert of a stack, or for a router."""
        rank = self.rank_of(weight)
        if not rank:
            return ()
        experts, (outs, ins) = (weight.shape[0], weight.shape[1:]) if len(weight.shape) > len("oi") else (1, weight.shape)
        return (
            Weight(f"{weight.name}.lora_A", "adapter", (rank * experts, ins)),
            Weight(f"{weight.name}.lora_B", "adapter", (outs, rank * experts)),
        )


def stacks_of(family: str, lora: Lora | None) -> Stacks | None:
    """Return the adapters of merged parameters in a family, None where PEFT converts nothing."""
    if lora is None or family not in MERGED or lora.variant not in _CONVERTED:
        return None
    merged, targets = MERGED[family], lora.targets

    def rank(*words: str) -> int:
        return lora.rank * len(words) if targets is None or set(words) <= set(targets) else 0

    return Stacks(
        router=rank(merged.router),
        gate_up=rank(*merged.gate_up),
        down=rank(merged.down),
        dtype=lora.dtype,
        words=merged.words,
    )


def adapter_factors(stacks: Stacks | None, weights: Iterable[Weight]) -> Iterator[Weight]:
    """Yield the adapters' tensors of the merged parameters among ``weights``."""
    if stacks is not None:
        for weight in weights:
            yield from stacks.factors(weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folding:
    """A merged parameter under way: ``factors`` in its dtype, or a router's whole update, live until its layer is through."""

    tape: Tape
    base: Parameter
    factors: tuple[Value, ...]
    scaled: bool

    def folded(self) -> Value:
        """Return the parameter plus its update: one product per expert added to a copy (``baddbmm``), or a plain sum."""
        tape, factors = self.tape, self.factors
        numel, is_sum = sizes.constant(self.base.numel), len(factors) == 1

        def backward(grad: Storage) -> None:
            for factor in factors:
                tape.send(factor, tape.hold(grad) if is_sum else self._gradient(factor))

        return tape.emit(numel, self.base.dtype, inputs=factors, saves=() if is_sum else factors, backward=backward)

    def _gradient(self, factor: Value) -> Storage:
        grad = self.tape.scratch(factor.numel, factor.dtype)
        if not self.scaled:
            return grad
        scaled = self.tape.scratch(factor.numel, factor.dtype)
        self.tape.release(grad)
        return scaled


def open_folding(tape: Tape, base: Parameter, factors: tuple[Parameter, ...], *, rank: int, is_stack: bool) -> Folding:
    """Return a merged parameter with its adapter; registering it makes the sum once, and drops it."""
    down, up = factors
    numel = sizes.constant(base.numel)
    if is_stack:
        made = tuple(cast(tape, value_of(factor), base.dtype) for factor in (up, down))
    else:
        product = chain(tape, batched_product(tape, value_of(up), value_of(down), numel), multiply_scalar)
        made = (chain(tape, product, lambda t, value: cast(t, value, base.dtype)),)
    tape.release(tape.scratch(numel, base.dtype))
    return Folding(tape=tape, base=base, factors=made, scaled=rank != ALPHA)
