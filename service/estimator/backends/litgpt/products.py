"""Products with LitGPT's weights, plain and packed."""

from functools import partial

from service.estimator.model.recording import Recording
from service.estimator.model.weights.packing import BLOCK_4BIT
from service.estimator.model.weights.tensors import Linear
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value, Work
from service.estimator.tape.ops.products import linear
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.releases.litgpt import LitGptCode
from service.estimator.values.units import ceil_div


def multiply_weight(
    ctx: Recording, layer: Linear, x: Value, scope: str, *, code: LitGptCode, category: Category
) -> Value:
    """Return a layer's product; ``x`` stays with the caller."""
    out = sizes.scale(sizes.count_rows(x.numel, layer.in_features), layer.out_features)
    if ctx.settings.packs(layer):
        return _multiply_packed(ctx, layer, x, out, code=code, category=category)
    weight, *bias = ctx.parameters(layer.weights(), scope)
    return linear(ctx.tape, x, weight, out, bias=bias[0] if bias else None, category=category)


def _multiply_packed(
    ctx: Recording, layer: Linear, x: Value, out: Size, *, code: LitGptCode, category: Category
) -> Value:
    """Record bitsandbytes' 4-bit product (``MatMul4Bit``).

    Lightning packs weights as fp16, so that they are unpacked to that first. Until 0.43.3 the
    input was an attribute of the graph's node, which lives as long as the graph does.
    """
    tape, dtype = ctx.tape, x.dtype
    unpack = partial(unpack_weight, ctx, layer, dtype)

    def backward(_: Storage) -> None:
        weight = unpack()
        grad = tape.scratch(x.numel, dtype)
        tape.release(*weight)
        tape.send(x, grad)

    weight = unpack()
    y = tape.emit(out, dtype, inputs=(x,), category=category, work=Work.PRODUCT, backward=backward)
    tape.release(*weight)
    if x.requires_grad and tape.builds_graph and not code.frees_packed_inputs:
        tape.hold_value(x)
    return y


def unpack_weight(ctx: Recording, layer: Linear, dtype: DType) -> list[Storage]:
    """Return the storages of a weight that is unpacked for a product."""
    tape, elements = ctx.tape, layer.in_features * layer.out_features
    scheme, scales = ctx.settings.scheme, list[Storage]()
    if scheme is not None and scheme.double:
        scales.append(tape.scratch(sizes.constant(ceil_div(elements, BLOCK_4BIT)), DType.FP32))
    weight = tape.scratch(sizes.constant(elements), DType.FP16)
    if dtype is not DType.FP16:
        tape.release(*scales)
        scales = []
        converted = tape.scratch(sizes.constant(elements), dtype)
        tape.release(weight)
        weight = converted
    return [*scales, weight]
