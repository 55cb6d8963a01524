"""Equal layers recorded as one: which of them differ, how each is run, and how its parameters are gathered."""

from collections.abc import Callable

from service.estimator.block_module import BlockModule
from service.estimator.recording import Recording
from service.estimator.tape.nodes import Value


def periods(run: Recording, members: tuple[tuple[BlockModule, int], ...], times: int, scope: str, x: Value) -> Value:
    """Record periods of layers of several kinds; the first and the last one apart for the reasons that blocks have."""
    if len(members) == 1:
        ((block, count),) = members
        return repeated(run, block, count * times, scope, x)

    def period(name: str) -> Callable[[Value], Value]:
        def run_members(value: Value) -> Value:
            for index, (block, count) in enumerate(members):
                value = repeated(run, block, count, f"{scope}{name}{index}.", value)
            return value

        return run_members

    for part, count in enumerate(_apart(run, times, x)):
        x = run.tape.repeat(count, period(f"{part}."), x)
    return x


def repeated(run: Recording, block: BlockModule, times: int, scope: str, x: Value) -> Value:
    """Record equal blocks as one; those that differ in what they keep are recorded apart, with weights of their own.

    The first one keeps less when its input has no gradient; with sharded units nothing is reduced before the last one.
    """
    for part, count in enumerate(_apart(run, times, x)):
        x = run.tape.repeat(count, _runner(run, block, f"{scope}{part}."), x)
    return x


def _apart(run: Recording, times: int, x: Value) -> list[int]:
    leaf = run.lora is not None  # PEFT makes the first block's input a leaf when checkpointing: it outlives backward
    follows_another = run.units is not None  # and its gathered output gives way to that of a first one of these
    apart_first = times > 1 and run.tape.records and (leaf or follows_another or not x.requires_grad)
    apart_last = times - apart_first > 1 and run.units is not None
    return [1] * apart_first + [times - apart_first - apart_last] + [1] * apart_last


def _runner(run: Recording, block: BlockModule, scope: str) -> Callable[[Value], Value]:
    def run_block(x: Value) -> Value:
        return block.record(run, x, scope)

    def run_checkpointed(x: Value) -> Value:
        return run.tape.checkpoint(run_block, x)

    runner, units = run_checkpointed if run.checkpointed else run_block, run.units
    if units is None:
        return runner
    elements, trained = run.elements_of(block.weights(), block.linears())
    return lambda x: units.run(runner, x, elements=elements, trained=trained)
