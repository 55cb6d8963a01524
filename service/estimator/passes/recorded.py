"""Walk over a model whose passes were recorded."""

from functools import partial

from service.estimator.model.pass_context import PassContext
from service.estimator.model.recorded.architecture import RecordedArchitecture
from service.estimator.model.recorded.running import run_prologue, update_cache
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear
from service.estimator.passes.step import ModelWalk
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.nodes import Parameter, Value
from service.estimator.tape.ops.products import allocate_integers, linear
from service.estimator.tape.programs.interpreter import Frame
from service.estimator.tape.programs.program import GraphNode, Operation, Release, flatten
from service.estimator.tape.programs.recorded_pass import Domain, RecordedPass
from service.estimator.tape.sizes import Size, count_rows
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError

_GATHERED = "gathered"
"""Formats of weights in 16 bits beside buffers in fp32."""
_LOG_SOFTMAX = "LogSoftmaxBackward0"


class RecordedWalk(ModelWalk):
    """One pass over a recorded model."""

    def __init__(self, model: RecordedArchitecture, ctx: Recording) -> None:
        """Choose the recorded variant that this pass needs."""
        super().__init__(model, ctx)
        self.recorded, self.model_reads = _choose_pass(model, ctx), model.recorded.reads
        self.runs_once = model.recorded.has_one_pass and not ctx.tape.builds_graph
        self.outer_layers = model.outer_layers
        weights = {weight.name: weight for weight in model.recorded.outer_weights}
        layers = {layer.name: layer for layer in (*model.outer_linears, model.head)}

        def get_parameter(name: str) -> Parameter | None:
            weight = weights.get(name)
            return None if weight is None else ctx.parameter(weight)

        self.frame = Frame(
            self.tape,
            self.recorded.values,
            self.recorded.num_storages,
            call_linear=lambda name, value, numel: self._call_linear(layers[name], value, numel),
            get_parameter=get_parameter,
            update_cache=partial(update_cache, ctx),
        )
        self.frame.length = ctx.settings.length
        self.frame.end_loss = _find_end_of_loss(self.recorded)
        ctx.recorded_frame, ctx.recorded_pass = self.frame, self.recorded

    def inputs(self) -> Value:
        """Return the token ids, or the pixels or audio of a batch."""
        if self.model_reads is None:
            return super().inputs()
        return self._allocate_input(self.recorded.inputs[0])

    def _allocate_input(self, number: int) -> Value:
        """Return a tensor that comes with the batch, of its own format."""
        numel, dtype = self.frame.count_elements(number), self.recorded.values[number].dtype
        if dtype is None:
            return allocate_integers(self.tape, numel)
        return self.ctx.take_input(numel)

    def record_layers(self, ids: Value) -> Value:
        """Record what was recorded before, in and after the layers."""
        tape, ctx, frame = self.tape, self.ctx, self.frame
        recorded = self.recorded
        frame.bind(recorded.inputs[0], ids)
        for number in recorded.inputs[1:]:
            # Labels, and positions that a caller gives each sequence, as ``generate`` does.
            frame.bind(number, self._allocate_input(number))
        settings = ctx.settings
        # Nothing is trained at all only where a recording is held against what was recorded.
        frame.requires_grad = tape.builds_graph and (
            self.checkpointed if settings.lora is not None else not settings.trains_all
        )
        if settings.ends_tables_late:
            tape.hook(self.drop_tables)
        run_prologue(ctx, frame, recorded, self.outer_layers)
        if self.units is not None:
            self.units.close_embedding()
        if self.checkpointed:
            # A checkpoint keeps the arguments of its layer until it has run again.
            args = (frame.get_value(number).storage for number in recorded.layer_args)
            self.tables += [tape.hold(storage) for storage in args if storage is not None]
        if not settings.ends_tables_late:
            tape.hook(self.drop_tables)
        x = frame.get_value(recorded.x)
        first = x.storage if recorded.holds_x else None
        x = self.record_runs(x, first)
        if self.units is not None:
            self.units.open_head()
        frame.bind(recorded.output, x)
        frame.run(recorded.epilogue, Category.ACTIVATIONS)
        if first is not None:
            tape.release(first)
        return frame.get_value(recorded.hidden)

    def record_logits(self, hidden: Value, numel: Size) -> Value:
        """Record what follows the layers, without a cache as it ran."""
        if self.model_reads is None and not self.runs_once:
            return super().record_logits(hidden, numel)
        self.frame.run(self.recorded.tail, Category.LOGITS)
        return self.tape.alias(hidden)

    def loss(self, hidden: Value, *, keeps_logits: bool) -> Value:
        """Record the head and the loss, unusual ones as they ran."""
        if self.model.finish_logits is None:
            entropy = super().loss(hidden, keeps_logits=keeps_logits)
            self._release_beside(hidden)
            return entropy
        tape, frame = self.tape, self.frame
        tape.ledger.enter(Section.LOSS_FORWARD)
        frame.run(self.recorded.tail, Category.LOGITS)
        if self.units is not None:
            self.units.close_head()
        self.outputs = tuple(frame.get_value(number) for number in self.recorded.returned)
        if not keeps_logits:
            tape.free(*self.outputs)
        loss = self.recorded.loss
        if loss is None:
            message = f"an evaluation of {self.model.family}, whose pass without labels has no loss"
            raise NotModelledError(message, field="workload.evaluation", modelled=[])
        return frame.get_value(loss)

    def _release_beside(self, hidden: Value) -> None:
        """Release what the model's own frame held until the loss was there.

        MiniCPM3 divides what its head reads, and names what it divided beside it.
        """
        for part in flatten(self.recorded.tail):
            if isinstance(part, Release):
                storage = self.frame.storages[part.storage]
                if storage is not None and storage is not hidden.storage:
                    self.tape.release(storage)

    def _call_linear(self, layer: Linear, x: Value, numel: Size) -> Value:
        ctx, model = self.ctx, self.model
        if layer.name != model.head.name:
            rows = count_rows(numel, layer.out_features)
            return ctx.linear(layer, x, "", rows=rows, category=Category.ACTIVATIONS)
        # PEFT adapts no output embedding, whose table is the input's where they are tied.
        table, *bias = ctx.parameters(layer.weights(), "")
        return linear(
            self.tape,
            x,
            ctx.parameter(model.embedding) if model.tied else table,
            numel,
            bias=bias[0] if bias else None,
            category=Category.LOGITS,
        )


def _find_end_of_loss(recorded: RecordedPass) -> GraphNode | None:
    """Return the node of a loss that backward runs last.

    It is the log-softmax next to the model, or where there is none the node that makes the loss. A
    model without a head of its own has them before its tail.
    """
    nodes = [
        node
        for part in (recorded.tail, recorded.epilogue, recorded.prologue)
        for instruction in flatten(part)
        if isinstance(instruction, Operation)
        for node in instruction.nodes
    ]
    ends = [node for node in nodes if node.name == _LOG_SOFTMAX]
    ends += [node for node in nodes if recorded.loss in node.outputs]
    return ends[0] if ends else None


def _choose_piece(model: RecordedArchitecture, name: str, ctx: Recording) -> RecordedPass:
    """Return the piece of a variant that has this batch and length."""
    pieces, length = model.recorded.list_pieces(name), ctx.settings.length or None
    batched = ctx.settings.batched or not model.batch_dependent
    for piece in pieces:
        if piece.domain.has(batched=batched, length=length):
            return piece
    several = [piece.domain for piece in pieces if batched or piece.domain.min_batch == 1]
    if not several:
        message = "one sequence of a recording that has several, which takes other tensors then"
        raise NotModelledError(message, field="workload.micro_batch_size", modelled=[])
    lengths = " or ".join(dict.fromkeys(_describe_lengths(domain) for domain in several))
    message = f"{length} tokens of a recording that is exact at {lengths}"
    raise NotModelledError(message, field="workload.sequence_length", modelled=[])


def _describe_lengths(domain: Domain) -> str:
    """Return the lengths of a domain in words."""
    begin = "" if domain.min_length == 1 else f" from {domain.min_length}"
    end = "" if domain.max_length is None else f" up to {domain.max_length}"
    kind = f"multiples of {domain.multiple_of}" if domain.multiple_of > 1 else "lengths"
    without = f" but multiples of {domain.no_multiple_of}" if domain.no_multiple_of else ""
    return f"{kind}{begin}{end}{without}"


def _name_gathered(model: RecordedArchitecture, formats: str, settings: PassContext) -> str:
    """Return the formats of a pass beside buffers in fp32.

    A model without buffers in the weights' format has one pass for both, and so has a recording of
    format 3 and before.
    """
    buffers = settings.buffer_dtype
    is_apart = formats == "half" and buffers is not None and buffers is not settings.dtype
    return _GATHERED if is_apart and _GATHERED in model.recorded.variants else formats


def _choose_pass(model: RecordedArchitecture, ctx: Recording) -> RecordedPass:
    """Return the recorded pass in the formats of this one."""
    formats = "fp32" if ctx.settings.dtype is DType.FP32 else "half"
    if ctx.tape.autocast is not None:
        formats = "autocast" if formats == "fp32" else "half_autocast"
    if not ctx.tape.builds_graph:
        caller = "generate/" if ctx.shape.own_positions else ""
        step = "decode" if ctx.shape.decoding else "prefill"
        once = model.recorded.reads is not None or model.recorded.has_one_pass
        name = f"{formats}/{'forward' if once else caller + step}"
    else:
        formats = _name_gathered(model, formats, ctx.settings)
        name = formats if ctx.settings.trains_all else f"{formats}/frozen"
    passes = model.recorded.variants
    if name not in passes:
        message = f"the pass {name}, which the recording of this model lacks"
        if formats == "half_autocast" and formats not in passes:
            message = (
                "weights in 16 bits under autocast, which the recording of this model lacks: "
                "record it anew, or ask for weights in fp32 (amp_bf16)"
            )
        raise NotModelledError(message, field="model", modelled=sorted(passes))
    return _choose_piece(model, name, ctx)
