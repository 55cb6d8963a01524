"""Routers and expert stacks that transformers 5 keeps as bare parameters.

They were linear layers before, and carry adapters.
"""

from dataclasses import dataclass

from service.estimator.model.adapters.stacks import WrappedParameter, wrap_parameter
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Weight
from service.estimator.tape.nodes import Parameter, Value, as_value
from service.estimator.tape.ops.elementwise import cast
from service.estimator.tape.ops.products import autocast_input, batched_product, linear
from service.estimator.tape.ops.routing import apply_linear_in_fp32
from service.estimator.values.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedParameter:
    """Router or expert parameter in one pass.

    It is as stored, or has the update of an adapter.
    """

    parameter: Parameter
    wrapped: WrappedParameter | None = None

    @property
    def factors(self) -> tuple[Value, ...]:
        """Tensors that the adapter holds while the layer runs."""
        return self.wrapped.factors if self.wrapped is not None else ()

    def value(self) -> Value:
        """Return the parameter as products read it."""
        return self.wrapped.apply_update() if self.wrapped is not None else as_value(self.parameter)


def get_fused_parameter(ctx: Recording, weight: Weight, scope: str) -> FusedParameter:
    """Return an expert stack or a router's table with its adapter."""
    parameter, stacks = ctx.parameter(weight, scope), ctx.settings.stacks
    if stacks is None or ctx.settings.lora is None or not stacks.get_rank(weight):
        return FusedParameter(parameter=parameter)
    factors = tuple(
        ctx.adapter(scope + factor.name, factor.numel, stacks.dtype)
        for factor in stacks.get_factors(weight)
    )
    return FusedParameter(
        parameter=parameter,
        wrapped=wrap_parameter(
            ctx.tape,
            parameter,
            factors,
            rank=ctx.settings.lora.rank,
            is_stack=weight.kind == "mlp_experts",
        ),
    )


def apply_fused_linear(
    ctx: Recording, weight: Weight, x: Value, scope: str, *, in_fp32: bool = False
) -> Value:
    """Return ``linear(x, weight)`` with the weight's adapter folded in.

    With ``in_fp32``, both sides are cast to fp32 first. ``x`` stays with the caller.
    """
    tape, out = ctx.tape, ctx.shape.tokens(weight.shape[0])
    fused = get_fused_parameter(ctx, weight, scope)
    if fused.wrapped is None:
        operation = apply_linear_in_fp32 if in_fp32 else linear
        return operation(tape, x, fused.parameter, out)
    table = fused.value()
    inputs = [cast(tape, side, DType.FP32) if in_fp32 else tape.alias(side) for side in (x, table)]
    operands = [autocast_input(tape, side) for side in inputs]
    y = batched_product(tape, operands[0], operands[1], out)
    tape.free(*operands, *inputs, table, *fused.factors)
    return y
