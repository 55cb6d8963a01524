"""Equal layers recorded as one.

Layers that differ are recorded apart; the module also runs each layer and gathers its parameters.
"""

from collections.abc import Callable

from service.estimator.model.block_module import BlockModule
from service.estimator.model.recording import Recording
from service.estimator.model.unit_elements import count_unit_elements
from service.estimator.tape.nodes import Value


def record_periods(
    ctx: Recording, members: tuple[tuple[BlockModule, int], ...], times: int, scope: str, x: Value
) -> Value:
    """Record periods of layers of several kinds.

    The first and the last one are recorded apart for the same reasons as those of blocks.
    """
    if len(members) == 1:
        ((block, count),) = members
        return record_blocks(ctx, block, count * times, scope, x)

    def period(name: str) -> Callable[[Value], Value]:
        def run_members(value: Value) -> Value:
            for index, (block, count) in enumerate(members):
                value = record_blocks(ctx, block, count, f"{scope}{name}{index}.", value)
            return value

        return run_members

    for part, count in enumerate(_split_ends(ctx, times, x)):
        x = ctx.tape.repeat(count, period(f"{part}."), x)
    return x


def begins_alone(
    ctx: Recording, members: tuple[tuple[BlockModule, int], ...], times: int, x: Value
) -> bool:
    """Return whether the first of these layers is recorded apart."""
    count = members[0][1]
    if ctx.settings.recompute_every is not None:
        return count * times == 1 or _count_lead(ctx, ctx.settings.recompute_every) == 1
    if len(members) == 1:
        return _split_ends(ctx, count * times, x)[0] == 1
    return _split_ends(ctx, times, x)[0] == 1 and _split_ends(ctx, count, x)[0] == 1


def record_blocks(ctx: Recording, block: BlockModule, times: int, scope: str, x: Value) -> Value:
    """Record equal blocks as one.

    Blocks that differ in the tensors they keep are recorded apart, with weights of their own. The
    first one keeps less when its input has no gradient; with sharded units nothing is reduced
    before the last one.
    """
    for part, count in enumerate(_split_ends(ctx, times, x)):
        runner = _make_runner(ctx, block, f"{scope}{part}.", checkpointed=ctx.settings.checkpointed)
        x = (
            ctx.tape.repeat(count, runner, x)
            if ctx.settings.recompute_every is None
            else _record_alternating(ctx, block, count, f"{scope}{part}.", x)
        )
    return x


def _record_alternating(
    ctx: Recording, block: BlockModule, times: int, scope: str, x: Value
) -> Value:
    """Record equal blocks of which every n-th is recomputed in backward.

    It is every n-th of the whole model, in order of layers: the n-th, the 2n-th and so on
    (torchtitan ``distributed/activation_checkpoint.py``), or the first, the n+1st and so on
    (transformers 5.23 ``modeling_utils.py``, ``_set_gradient_checkpointing``).
    """
    tape, every = ctx.tape, ctx.settings.recompute_every or 1
    lead = _count_lead(ctx, every)
    is_complete, lead = lead <= times, min(times, lead)
    num_stretches, tail = divmod(times - lead, every)
    ctx.num_recorded_layers += times
    if lead:
        x = _make_stretch(ctx, block, f"{scope}lead.", lead, recomputes=is_complete)(x)
    if num_stretches:
        x = tape.repeat(num_stretches, _make_stretch(ctx, block, scope, every, recomputes=True), x)
    return _make_stretch(ctx, block, f"{scope}tail.", tail, recomputes=False)(x) if tail else x


def _count_lead(ctx: Recording, every: int) -> int:
    """Count the layers up to the next recomputed one.

    It is 0 where they are a whole interval.
    """
    offset = 0 if ctx.settings.recompute_first else every - 1
    return (offset - ctx.num_recorded_layers + 1) % every


def _make_stretch(
    ctx: Recording, block: BlockModule, scope: str, length: int, *, recomputes: bool
) -> Callable[[Value], Value]:
    """Return a function that runs layers in a row.

    Backward computes the last of them again when ``recomputes``.
    """

    def run_stretch(x: Value) -> Value:
        plain = length - recomputes
        if plain:
            x = ctx.tape.repeat(
                plain, _make_runner(ctx, block, f"{scope}plain.", checkpointed=False), x
            )
        return _make_runner(ctx, block, f"{scope}again.", checkpointed=True)(x) if recomputes else x

    return run_stretch


def record_blocks_keeping_input(
    ctx: Recording, block: BlockModule, times: int, scope: str, first: Value
) -> Value:
    """Record equal blocks after ``first``, which stays with the caller.

    The code around them keeps its name.
    """
    tape, storage = ctx.tape, first.storage
    if times == 1 or storage is None:
        return record_blocks(ctx, block, times, scope, tape.alias(first))
    mark = tape.ledger.mark()
    x = record_blocks(ctx, block, times, scope, first)
    tape.revive(mark, storage)
    return x


def _split_ends(ctx: Recording, times: int, x: Value) -> list[int]:
    follows_another = (
        ctx.units is not None
    )  # and its gathered output gives way to that of a first one of these
    apart_first = (
        times > 1
        and ctx.tape.builds_graph
        and (ctx.has_leaf_input or follows_another or not x.requires_grad)
    )
    apart_last = times - apart_first > 1 and (follows_another or ctx.settings.last_differs)
    return [1] * apart_first + [times - apart_first - apart_last] + [1] * apart_last


def _make_runner(
    ctx: Recording, block: BlockModule, scope: str, *, checkpointed: bool
) -> Callable[[Value], Value]:
    def run_block(x: Value) -> Value:
        return block.record(ctx, x, scope)

    def run_checkpointed(x: Value) -> Value:
        return ctx.settings.checkpoint(ctx.tape, run_block, x)

    runner, units = run_checkpointed if checkpointed else run_block, ctx.units
    if units is None:
        return runner
    elements, trained = count_unit_elements(ctx, block.weights(), block.linears(), units.config)
    return lambda x: units.run_block(runner, x, elements=elements, trained=trained)
