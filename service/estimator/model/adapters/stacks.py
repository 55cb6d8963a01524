"""Low-rank adapters on stacks of experts and on their routers.

PEFT 0.21 makes them where transformers 5 merged old layers.
``peft/utils/transformers_weight_conversion.py`` says which names stand for which merged parameter,
``ParamWrapper`` in ``peft/tuners/lora/layer.py`` how one is adapted: the full stack plus its update
is a new tensor in every forward.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from service.estimator.model.weights.tensors import Weight
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Parameter, Value, as_value
from service.estimator.tape.ops.elementwise import cast, chain, multiply_scalar
from service.estimator.tape.ops.products import autocast_weight, batched_product
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Lora

ALPHA = 8
"""PEFT's default ``lora_alpha``: at this rank the update is not scaled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedTargets:
    """Target names that stand for merged parameters.

    They are the name of a router, those of the two projections that one stack holds, and that of
    the other stack.
    """

    router: str
    gate_up: tuple[str, str]
    down: str

    @property
    def names(self) -> frozenset[str]:
        """All target names.

        None of them names a linear layer any more, not even where a shared expert has one of that
        name.
        """
        return frozenset({self.router, *self.gate_up, self.down})


_PROJECTIONS = MergedTargets(router="gate", gate_up=("gate_proj", "up_proj"), down="down_proj")
MERGED = {
    "mixtral": MergedTargets(router="gate", gate_up=("w1", "w3"), down="w2"),
    "qwen3_moe": _PROJECTIONS,
    "qwen3_next": _PROJECTIONS,
    "olmoe": _PROJECTIONS,
    "glm4_moe": _PROJECTIONS,
    "deepseek_v2": _PROJECTIONS,
    "deepseek_v3": _PROJECTIONS,
    "deepseek_v32": _PROJECTIONS,
    "glm_moe_dsa": _PROJECTIONS,
}
"""The families whose targets PEFT converts; others keep their stacks unadapted."""
_CONVERTED = ("lora", "rslora", "dora")
"""Kinds of adapters whose targets are converted (``PeftType.LORA``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackAdapters:
    """Adapter ranks of a router and of both stacks, 0 for none.

    No linear layer is adapted by one of ``merged_names``.
    """

    router: int
    gate_up: int
    down: int
    dtype: DType
    merged_names: frozenset[str]

    def get_rank(self, weight: Weight) -> int:
        """Return the rank of the adapter on a parameter with experts.

        0 stands for no adapter.
        """
        if weight.kind == "router" and weight.name.endswith(".gate.weight"):
            return self.router
        if weight.kind != "mlp_experts":
            return 0
        return self.gate_up if weight.name.endswith("gate_up_proj") else self.down

    def get_factors(self, weight: Weight) -> tuple[Weight, ...]:
        """Return the factors A and B of a stack or a router.

        A is rank x in, and B is out x rank, for every expert.
        """
        rank = self.get_rank(weight)
        if not rank:
            return ()
        experts, (outs, ins) = (
            (weight.shape[0], weight.shape[1:])
            if len(weight.shape) > len("oi")
            else (1, weight.shape)
        )
        return (
            Weight(f"{weight.name}.lora_A", "adapter", (rank * experts, ins)),
            Weight(f"{weight.name}.lora_B", "adapter", (outs, rank * experts)),
        )


def list_last_parts(lora: Lora) -> frozenset[str] | None:
    """Return the last parts of targets; None is every layer.

    PEFT looks for merged parameters by them, so that ``shared_expert.up_proj`` is of the routed
    experts (PEFT 0.21 ``utils/transformers_weight_conversion.py``, ``_convert_peft_config_moe``).
    """
    if lora.targets is None:
        return None
    return frozenset(target.rpartition(".")[2] for target in lora.targets)


def build_stack_adapters(family: str, lora: Lora | None) -> StackAdapters | None:
    """Return the adapters of merged parameters in a family.

    None where PEFT converts nothing.
    """
    if lora is None or family not in MERGED or lora.variant not in _CONVERTED:
        return None
    merged, targets = MERGED[family], list_last_parts(lora)

    def rank(*targeted: str) -> int:
        return lora.rank * len(targeted) if targets is None or set(targeted) <= targets else 0

    return StackAdapters(
        router=rank(merged.router),
        gate_up=rank(*merged.gate_up),
        down=rank(merged.down),
        dtype=lora.dtype,
        merged_names=merged.names,
    )


def iter_stack_factors(stacks: StackAdapters | None, weights: Iterable[Weight]) -> Iterator[Weight]:
    """Yield the adapters' tensors of merged parameters.

    ``weights`` are those of a block, merged or not.
    """
    if stacks is not None:
        for weight in weights:
            yield from stacks.get_factors(weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedParameter:
    """A merged parameter with its adapter.

    ``factors`` in its dtype, or a router's full update, live until its layer is through.
    """

    tape: Tape
    base: Parameter
    factors: tuple[Value, ...]
    scaled: bool

    def apply_update(self) -> Value:
        """Return the parameter plus its update.

        It is one product per expert added to a copy (``baddbmm``), or a plain sum.
        """
        tape, factors = self.tape, self.factors
        numel, is_plain_sum = sizes.constant(self.base.numel), len(factors) == 1

        def backward(grad: Storage) -> None:
            for factor in factors:
                tape.send(factor, tape.hold(grad) if is_plain_sum else self._gradient(factor))

        return tape.emit(
            numel,
            self.base.dtype,
            inputs=factors,
            saves=() if is_plain_sum else factors,
            backward=backward,
        )

    def _gradient(self, factor: Value) -> Storage:
        grad = self.tape.scratch(factor.numel, factor.dtype)
        if not self.scaled:
            return grad
        scaled = self.tape.scratch(factor.numel, factor.dtype)
        self.tape.release(grad)
        return scaled


def wrap_parameter(
    tape: Tape, base: Parameter, factors: tuple[Parameter, ...], *, rank: int, is_stack: bool
) -> WrappedParameter:
    """Return a merged parameter with its adapter.

    Registering it makes the sum once, and drops it.
    """
    down, up = factors
    numel = sizes.constant(base.numel)
    if is_stack:
        factor_values = tuple(cast(tape, as_value(factor), base.dtype) for factor in (up, down))
    else:
        copies = autocast_weight(tape, up), autocast_weight(tape, down)
        product = chain(tape, batched_product(tape, *copies, numel), multiply_scalar)
        tape.free(*copies)
        factor_values = (chain(tape, product, lambda t, value: cast(t, value, base.dtype)),)
    tape.release(tape.scratch(numel, base.dtype))
    return WrappedParameter(tape=tape, base=base, factors=factor_values, scaled=rank != ALPHA)
