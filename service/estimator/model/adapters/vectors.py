"""IA3 and MiSS as PEFT 0.21 runs them.

(``peft/tuners/ia3/layer.py``, ``miss/layer.py``.) Neither is a product of two factors.
"""

from collections.abc import Callable

from service.estimator.model.adapters.parameters import has_scaled_input
from service.estimator.model.adapters.site import Site
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value, as_value
from service.estimator.tape.ops.elementwise import add, cast, multiply, multiply_scalar
from service.estimator.tape.ops.products import linear
from service.estimator.values.dtypes import DType

Base = Callable[[Value], Value]


def ia3(site: Site, x: Value, base: Base, *, rank: int, dtype: DType) -> Value:  # noqa: ARG001 - a vector has no rank
    """Return the layer's output times a learned vector.

    It may be the output of its scaled input instead (arXiv:2205.05638, section 3.3).
    """
    tape, scales = site.tape, has_scaled_input(site.layer)
    features = site.layer.in_features if scales else site.layer.out_features
    scale = multiply_scalar(tape, as_value(site.parameter("ia3_l", features, dtype)))
    scaled = cast(tape, x, dtype) if scales else base(x)
    product = multiply(tape, scaled, scale)
    converted = cast(tape, product, x.dtype if scales else scaled.dtype)
    tape.free(product)
    if not scales:
        tape.free(scaled, scale)
        return converted
    result = base(converted)
    tape.free(converted, scaled, scale)
    return result


def miss(site: Site, x: Value, base: Base, *, rank: int, dtype: DType) -> Value:
    """Return the layer's output plus MiSS's update.

    The update is the sum of its input's shards times one small matrix (arXiv:2409.15371).
    """
    tape = site.tape
    result = base(x)
    source = cast(tape, x, dtype)

    def backward(_: Storage) -> None:
        tape.send(source, tape.scratch(source.numel, dtype))

    shards = tape.emit(site.tokens(rank), dtype, inputs=(source,), backward=backward)
    block = site.parameter("miss_block", rank * site.layer.out_features, dtype)
    product = linear(tape, shards, block, site.output_numel)
    tape.free(shards)
    summed = add(tape, result, product)
    tape.free(product, result)
    adapted = cast(tape, summed, x.dtype)
    tape.free(summed, source)
    return adapted
