"""Recorded layers among others: what they share, and those beside the stack."""

from collections.abc import Sequence

from service.estimator.model.recorded.outer_layers import OuterLayer, Stretch, divide_prologue
from service.estimator.model.recording import Recording
from service.estimator.model.unit_elements import count_unit_elements
from service.estimator.tape.graph import Mode
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.programs.interpreter import Frame
from service.estimator.tape.programs.program import LinearCall, Operation, Program, flatten
from service.estimator.tape.programs.recorded_pass import RecordedPass
from service.estimator.tape.programs.stepped_sizes import AnySize, resolve_size


def hold_previous(ctx: Recording, left: Sequence[tuple[int, AnySize]]) -> list[Storage]:
    """Return what the layer before left behind.

    It is as large as what this layer leaves, and lives until it returns. In a graph it is kept
    anyway, so that it costs something only where none is built; the first layer is counted as the
    others are, which are higher.
    """
    if ctx.tape.mode not in {Mode.INFERENCE, Mode.DISCARDING}:
        return []
    length = ctx.settings.length
    sizes = (resolve_size(size, length) for _, size in left)
    return [ctx.tape.allocate(Category.ACTIVATIONS, size) for size in sizes]


def update_cache(ctx: Recording, parts: tuple[Value, ...], window: int | None) -> tuple[Value, ...]:
    """Return a layer's keys and values as attention reads them."""
    widths = {part.numel[1] + part.numel[3] for part in parts}
    if len(widths) > 1:
        return ctx.update_cache_parts(*parts)
    key, value = parts
    return ctx.update_cache(key, value, widths.pop(), window)


def shares_gradients(recorded: RecordedPass) -> bool:
    """Return whether layers hand gradients to a tensor beside their input."""
    produced = {
        output
        for part in flatten(recorded.prologue)
        if isinstance(part, Operation)
        for node in part.nodes
        for output in node.outputs
    } | {part.output for part in flatten(recorded.prologue) if isinstance(part, LinearCall)}
    return any(
        outer in produced and number in _list_read(program)
        for program, inputs in zip(recorded.blocks, recorded.block_inputs, strict=True)
        for number, outer in enumerate(inputs, start=1)
    )


def _list_read(program: Program) -> set[int | None]:
    """Return the values that a program hands gradients to or multiplies."""
    parts = [*flatten(program.instructions)]
    targets = {
        gradient.value
        for part in parts
        if isinstance(part, Operation)
        for node in part.nodes
        for gradient in node.gradients
    }
    return targets | {part.x for part in parts if isinstance(part, LinearCall)}


def run_prologue(
    ctx: Recording, frame: Frame, recorded: RecordedPass, layers: Sequence[OuterLayer]
) -> None:
    """Run what is before the stack.

    Its layers run apart where they are units or recomputed.
    """
    recomputes = ctx.settings.checkpointed or ctx.settings.recompute_every is not None
    is_apart = bool(layers) and (ctx.units is not None or recomputes)
    stretches = divide_prologue(recorded, layers) if is_apart else None
    if stretches is None:
        frame.run(recorded.prologue, Category.ACTIVATIONS)
        return
    _OuterRun(ctx, frame).run(stretches)


class _OuterRun:
    """One run of layers, with what their checkpoints hold."""

    def __init__(self, ctx: Recording, frame: Frame) -> None:
        self.ctx, self.frame, self.tape = ctx, frame, ctx.tape
        self.arguments: dict[int, Storage] | None = None

    def run(self, stretches: Sequence[Stretch]) -> None:
        """Run all stretches in order."""
        for stretch in stretches:
            if stretch.layer is None:
                self.frame.run(stretch.instructions, Category.ACTIVATIONS)
            else:
                self._run_layer(stretch, stretch.layer)

    def _run_layer(self, stretch: Stretch, layer: OuterLayer) -> None:
        ctx, frame, units = self.ctx, self.frame, self.ctx.units
        x = frame.get_value(stretch.x)

        def run(x: Value) -> Value:
            frame.bind(stretch.x, x)
            for number in stretch.produced:
                frame.values[number] = None
            frame.run(stretch.instructions, Category.ACTIVATIONS)
            if ctx.tape.mode is Mode.RECOMPUTING:
                # Before, the loop over layers releases it.
                ctx.tape.free(x)
            return frame.get_value(stretch.output)

        def run_again(x: Value) -> Value:
            return ctx.settings.checkpoint(ctx.tape, run, x)

        runner = run
        if self._recomputes_next():
            self._hold(stretch)
            runner = run_again
        if units is None:
            y = runner(x)
        else:
            elements, trained = count_unit_elements(
                ctx, layer.weights(), layer.linears(), units.config
            )
            y = units.run_block(runner, x, elements=elements, trained=trained)
        frame.bind(stretch.output, y)

    def _recomputes_next(self) -> bool:
        """Return whether backward runs the next layer again."""
        settings, number = self.ctx.settings, self.ctx.num_recorded_layers
        every = settings.recompute_every
        if every is None:
            return settings.checkpointed
        self.ctx.num_recorded_layers += 1
        offset = 0 if settings.recompute_first else every - 1
        return (offset - number) % every == 0

    def _hold(self, stretch: Stretch) -> None:
        """Hold what layers are called with until backward is through them."""
        if self.arguments is None:
            arguments: dict[int, Storage] = {}
            self.arguments = arguments
            self.tape.hook(lambda: self.tape.release(*arguments.values()))
        for place in stretch.read_storages:
            storage = self.frame.storages[place]
            if storage is not None and place not in self.arguments:
                self.arguments[place] = self.tape.hold(storage)
