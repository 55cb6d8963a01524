"""Steps of a head between the hidden states and its output layer."""

from collections.abc import Callable, Iterable, Iterator

from service.estimator.model.recording import Recording
from service.estimator.model.task_head import Transform
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.graph import Tape
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain, dropout

Operation = Callable[[Tape, Value], Value]
Step = Linear | Norm | Operation


def make_dropout(probability: float) -> Operation:
    """Return the operation of a dropout."""
    return lambda tape, value: dropout(tape, value, probability)


def make_transform(steps: tuple[Step, ...]) -> Transform | None:
    """Return the function that runs steps one after another; None for none."""
    if not steps:
        return None

    def transform(ctx: Recording, x: Value) -> Value:
        value = ctx.tape.alias(x)
        for step in steps:
            value = chain(ctx.tape, value, _bind_step(ctx, step))
        return value

    return transform


def _bind_step(ctx: Recording, step: Step) -> Operation:
    if isinstance(step, Linear):
        return lambda _, value: ctx.linear(step, value, "")
    if isinstance(step, Norm):
        return lambda _, value: ctx.norm(step, value, "")
    return step


def list_linears(steps: Iterable[Step]) -> tuple[Linear, ...]:
    """Return the linear layers among steps."""
    return tuple(step for step in steps if isinstance(step, Linear))


def iterate_step_weights(steps: Iterable[Step]) -> Iterator[Weight]:
    """Yield the tensors of layers and norms among steps."""
    for step in steps:
        if isinstance(step, Linear | Norm):
            yield from step.weights()
