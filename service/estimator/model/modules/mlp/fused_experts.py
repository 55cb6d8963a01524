"""Parameters that transformers 5 merged out of linear layers: routers and stacks of experts, with adapters on them."""

from dataclasses import dataclass

from service.estimator.model.adapters.stacks import Folding, open_folding
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Weight
from service.estimator.tape.nodes import Parameter, Value, value_of
from service.estimator.tape.ops.elementwise import cast
from service.estimator.tape.ops.products import autocast_input, batched_product, linear
from service.estimator.tape.ops.routing import product_in_fp32
from service.estimator.values.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A merged parameter in one pass: as it is stored, or with the update of an adapter."""

    parameter: Parameter
    folding: Folding | None = None

    @property
    def factors(self) -> tuple[Value, ...]:
        """What the adapter holds while the layer runs."""
        return self.folding.factors if self.folding is not None else ()

    def value(self) -> Value:
        """Return the parameter as products read it."""
        return self.folding.folded() if self.folding is not None else value_of(self.parameter)


def merged_parameter(run: Recording, weight: Weight, scope: str) -> Merged:
    """Return a stack of experts, or a router's table, with its adapter where it has one."""
    parameter, stacks = run.parameter(weight, scope), run.stacks
    if stacks is None or run.lora is None or not stacks.rank_of(weight):
        return Merged(parameter=parameter)
    factors = tuple(run.adapter(scope + factor.name, factor.numel, stacks.dtype) for factor in stacks.factors(weight))
    return Merged(
        parameter=parameter,
        folding=open_folding(run.tape, parameter, factors, rank=run.lora.rank, is_stack=weight.kind == "mlp_experts"),
    )


def merged_linear(run: Recording, weight: Weight, x: Value, scope: str, *, in_fp32: bool = False) -> Value:
    """Return ``linear(x, weight)``, or that of both in fp32, with the weight's adapter folded in; ``x`` stays."""
    tape, out = run.tape, run.extent.tokens(weight.shape[0])
    merged = merged_parameter(run, weight, scope)
    if merged.folding is None:
        operation = product_in_fp32 if in_fp32 else linear
        return operation(tape, x, merged.parameter, out)
    table = merged.value()
    sides = [cast(tape, side, DType.FP32) if in_fp32 else tape.alias(side) for side in (x, table)]
    operands = [autocast_input(tape, side) for side in sides]
    y = batched_product(tape, operands[0], operands[1], out)
    tape.free(*operands, *sides, table, *merged.factors)
    return y
