"""Activation functions of transformers 5.23 (``activations.py``), operation by operation.

Each of them that has no kernel of its own keeps what its operations keep. ``prelu`` and ``xielu``
have parameters, and are not among them.
"""

from collections.abc import Callable

from service.estimator.tape.graph import Tape
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import (
    activate_saving_input,
    activate_saving_output,
    add,
    add_scalar,
    chain,
    compute_erf,
    multiply,
    multiply_scalar,
    power,
    silu,
)
from service.estimator.tape.ops.routing import clamp


def relu_squared(tape: Tape, x: Value) -> Value:
    """Return ``relu(x) ** 2`` (transformers' ReLUSquaredActivation)."""
    return chain(tape, activate_saving_output(tape, x), power)


def quick_gelu(tape: Tape, x: Value) -> Value:
    """Return ``x * sigmoid(1.702 x)`` as separate operations.

    (transformers' QuickGELUActivation.)
    """
    gate = chain(tape, multiply_scalar(tape, x), activate_saving_output)
    return chain(tape, gate, lambda t, value: multiply(t, x, value))


def new_gelu(tape: Tape, x: Value) -> Value:
    """Return GPT-2's tanh-approximated gelu as eight operations.

    ``0.5 x (1 + tanh(c (x + 0.044715 x³)))`` (transformers' NewGELUActivation).
    """
    half = multiply_scalar(tape, x)
    inner = chain(tape, power(tape, x), multiply_scalar)
    summed = add(tape, x, inner)
    tape.free(inner)
    curve = chain(tape, chain(tape, summed, multiply_scalar), activate_saving_output)
    return _apply_gate(tape, half, curve)


def fast_gelu(tape: Tape, x: Value) -> Value:
    """Return ``x`` times its tanh gate, as nine operations.

    ``0.5 x (1 + tanh(0.7978845608 x (1 + 0.044715 x x)))`` (transformers' FastGELUActivation).
    """
    half, scaled = multiply_scalar(tape, x), multiply_scalar(tape, x)
    square = chain(tape, multiply_scalar(tape, x), lambda t, value: multiply(t, value, x))
    inner = chain(
        tape, chain(tape, square, add_scalar), lambda t, value: multiply(t, scaled, value)
    )
    tape.free(scaled)
    return _apply_gate(tape, half, chain(tape, inner, activate_saving_output))


def exact_gelu(tape: Tape, x: Value) -> Value:
    """Return ``0.5 x (1 + erf(x / sqrt(2)))``, five operations.

    (transformers' GELUActivation with ``use_gelu_python``.)
    """
    half = multiply_scalar(tape, x)
    return _apply_gate(tape, half, chain(tape, multiply_scalar(tape, x), compute_erf))


def _apply_gate(tape: Tape, half: Value, curve: Value) -> Value:
    """Return ``half * (1 + curve)``; both are dropped."""
    gate = chain(tape, curve, add_scalar)
    y = multiply(tape, half, gate)
    tape.free(half, gate)
    return y


def clipped_gelu(tape: Tape, x: Value) -> Value:
    """Return gelu within -10 and 10 (transformers' ClippedGELUActivation)."""
    return chain(tape, activate_saving_input(tape, x), clamp)


def pass_through(tape: Tape, x: Value) -> Value:
    """Return ``x`` itself (transformers' LinearActivation)."""
    return tape.alias(x)


ACTIVATIONS: dict[str, Callable[[Tape, Value], Value]] = {
    "gelu": activate_saving_input,
    "gelu_10": clipped_gelu,
    "gelu_accurate": new_gelu,
    "gelu_fast": fast_gelu,
    "gelu_new": new_gelu,
    "gelu_python": exact_gelu,
    "gelu_python_tanh": new_gelu,
    "gelu_pytorch_tanh": activate_saving_input,
    "hardswish": activate_saving_input,
    "leaky_relu": activate_saving_input,
    "linear": pass_through,
    "mish": activate_saving_input,
    "quick_gelu": quick_gelu,
    "relu": activate_saving_output,
    "relu2": relu_squared,
    "relu6": activate_saving_input,
    "sigmoid": activate_saving_output,
    "silu": silu,
    "swish": silu,
    "tanh": activate_saving_output,
}
"""Activation functions by the name that a config gives them."""
