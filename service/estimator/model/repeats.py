"""Equal layers recorded as one: which of them differ, how each is run, and how its parameters are gathered."""

from collections.abc import Callable

from service.estimator.model.block_module import BlockModule
from service.estimator.model.recording import Recording
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
        runner = _runner(run, block, f"{scope}{part}.", checkpointed=run.checkpointed)
        x = run.tape.repeat(count, runner, x) if run.every is None else _alternating(run, block, count, f"{scope}{part}.", x)
    return x


def _alternating(run: Recording, block: BlockModule, times: int, scope: str, x: Value) -> Value:
    """Record equal blocks of which every n-th of the whole model is computed again in backward.

    (torchtitan ``distributed/activation_checkpoint.py``: the n-th, the 2n-th and so on, in order of layers.)
    """
    tape, every = run.tape, run.every or 1
    lead = min(times, -run.passed % every)
    whole, tail = divmod(times - lead, every)
    closes = (run.passed + lead) % every == 0
    run.passed += times
    if lead:
        x = _stretch(run, block, f"{scope}lead.", lead, recomputes=closes)(x)
    if whole:
        x = tape.repeat(whole, _stretch(run, block, scope, every, recomputes=True), x)
    return _stretch(run, block, f"{scope}tail.", tail, recomputes=False)(x) if tail else x


def _stretch(run: Recording, block: BlockModule, scope: str, length: int, *, recomputes: bool) -> Callable[[Value], Value]:
    """Return layers in a row, the last of which is computed again in backward when ``recomputes``."""

    def run_stretch(x: Value) -> Value:
        plain = length - recomputes
        if plain:
            x = run.tape.repeat(plain, _runner(run, block, f"{scope}plain.", checkpointed=False), x)
        return _runner(run, block, f"{scope}again.", checkpointed=True)(x) if recomputes else x

    return run_stretch


def repeated_beside(run: Recording, block: BlockModule, times: int, scope: str, first: Value) -> Value:
    """Record equal blocks after ``first``, whose name the code around them keeps: it stays with the caller."""
    tape, storage = run.tape, first.storage
    if times == 1 or storage is None:
        return repeated(run, block, times, scope, tape.alias(first))
    mark = tape.ledger.mark()
    x = repeated(run, block, times, scope, first)
    tape.revive(mark, storage)
    return x


def _apart(run: Recording, times: int, x: Value) -> list[int]:
    leaf = run.lora is not None  # PEFT makes the first block's input a leaf when checkpointing: it outlives backward
    follows_another = run.units is not None  # and its gathered output gives way to that of a first one of these
    apart_first = times > 1 and run.tape.records and (leaf or follows_another or not x.requires_grad)
    apart_last = times - apart_first > 1 and (follows_another or run.last_differs)
    return [1] * apart_first + [times - apart_first - apart_last] + [1] * apart_last


def _runner(run: Recording, block: BlockModule, scope: str, *, checkpointed: bool) -> Callable[[Value], Value]:
    def run_block(x: Value) -> Value:
        return block.record(run, x, scope)

    def run_checkpointed(x: Value) -> Value:
        return run.checkpoint(run.tape, run_block, x)

    runner, units = run_checkpointed if checkpointed else run_block, run.units
    if units is None:
        return runner
    elements, trained = run.elements_of(block.weights(), block.linears(), units.how)
    return lambda x: units.run(runner, x, elements=elements, trained=trained)
