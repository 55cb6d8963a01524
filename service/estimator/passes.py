"""Walks a model: records one training step or one serving pass on a tape."""

from collections.abc import Callable
from dataclasses import dataclass

from service.estimator.architecture import Architecture, BlockModule, Embedded
from service.estimator.dtypes import DType
from service.estimator.recording import Extent, Recording
from service.estimator.tape import sizes
from service.estimator.tape.elementwise import add, cast, chain, dropout
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Point, Section, Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.products import embedding, end_autocast, integers, linear
from service.estimator.tape.sizes import Size
from service.estimator.tape.units import Gathering, Units
from service.estimator.workload import Attention, Cache, Checkpointing, Lora

Highs = dict[Section, tuple[Point, ...]]
INDEX_BYTES = 8
"""Token ids, positions and labels are 64-bit integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPass:
    """Everything that decides which tensors a training step makes, beside the model, the batch and the sequence."""

    param_dtype: DType
    autocast: DType | None
    trains_all: bool
    lora: Lora | None
    checkpointing: Checkpointing
    attention: Attention
    keeps_logits: bool
    accumulating: bool
    gathering: Gathering | None = None


def record_training(model: Architecture, how: TrainingPass) -> Highs:
    """Return the highest points of forward, loss and backward of one micro batch."""
    tape = Tape(Section.FORWARD, Mode.RECORDING, autocast=how.autocast, accumulating=how.accumulating)
    run = Recording(tape, dtype=how.param_dtype, trains_all=how.trains_all, attention=how.attention, lora=how.lora)
    units = Units(tape, how.gathering) if how.gathering is not None else None
    step = _Step(model, run, checkpointed=how.checkpointing is Checkpointing.FULL, units=units)
    ids = integers(tape, sizes.per_token(1))
    hidden = step.hidden_states(ids)
    loss = step.loss(hidden, keeps_logits=how.keeps_logits)
    end_autocast(tape)
    tape.ledger.enter(Section.LOSS_BACKWARD)
    if units is not None:
        units.end_forward()
    step.backward(loss)
    return tape.ledger.highest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPass:
    """Everything that decides which tensors prefill and decode make, beside the model, the batch and the lengths."""

    dtype: DType
    attention: Attention
    cache: Cache


def record_serving(model: Architecture, how: ServingPass) -> Highs:
    """Return the highest points of prefill (``s`` = prompt) and of one decode step (``s`` = tokens in the cache).

    A dynamic cache is part of prefill; in decode, and when it is static, the caller counts it.
    """
    highs: Highs = {}
    for section in (Section.PREFILL, Section.DECODE):
        tape = Tape(section, Mode.INFERENCE)
        run = Recording(tape, dtype=how.dtype, trains_all=False, attention=how.attention, lora=None)
        run.cache, run.extent = how.cache, Extent(decoding=section is Section.DECODE)
        step = _Step(model, run)
        ids = integers(tape, run.extent.tokens(1))
        hidden = step.hidden_states(ids)
        last = sizes.per_sequence(model.vocab_size)
        tape.free(step.logits_of(hidden, last))
        highs |= tape.ledger.highest()
    return highs


class _Step:
    """One pass over the model: the values that outlive a call are its fields."""

    def __init__(self, model: Architecture, run: Recording, *, checkpointed: bool = False, units: Units | None = None) -> None:
        self.model, self.run, self.tape, self.units = model, run, run.tape, units
        self.checkpointed = checkpointed
        self.tables: list[Storage] = []
        self.logits: Value | None = None
        self.mask: Storage | None = None

    def hidden_states(self, ids: Value) -> Value:
        """Record embedding, blocks and final norm."""
        tape, model, run = self.tape, self.model, self.run
        if self.units is not None:
            self.units.open_root(model.counts.outside_blocks, model.counts.largest_block)
        embedded = self._embedded(ids)
        x = embedded.x
        run.table_dtype = x.dtype
        self._keep(embedded)
        self._make_tables()
        tape.hook(self._drop_tables)
        count = model.num_hidden_layers
        first = x.storage if embedded.named else None
        retained = tape.alias(x) if count == 1 and embedded.named else None
        mark = tape.ledger.mark()
        for index, (block, times) in enumerate(model.blocks):
            x = self._repeated(block, times, f"{index}.", x)
        if first is not None and retained is None:
            tape.revive(mark, first)
        y = run.norm(model.final_norm, x, "") if model.final_norm is not None else tape.alias(x)
        tape.free(x, *embedded.names, *embedded.passed)
        if self.mask is not None and not self.checkpointed:
            tape.release(self.mask)
        if first is not None:
            tape.release(first)
        return y

    def _keep(self, embedded: Embedded) -> None:
        """Hold what outlives forward until backward has been through all layers."""
        held = (*embedded.passed, *embedded.kept) if self.checkpointed else embedded.kept
        for value in held:
            if value.storage is not None:
                self.tables.append(self.tape.hold(value.storage))
        self.tape.free(*embedded.kept)

    def _embedded(self, ids: Value) -> Embedded:
        """Return the first hidden state, and what the model's forward still has names for."""
        tape, model, run = self.tape, self.model, self.run
        hidden = model.spec.hidden_size
        tokens = embedding(tape, run.parameter(model.embedding), ids, run.extent.tokens(model.embedding.shape[1]))
        if self.checkpointed and run.lora is not None:
            tape.require_grad(tokens)  # PEFT's enable_input_require_grads, or checkpointed blocks would have no graph
        if model.embed is not None:
            return model.embed(run, tokens)
        positions = integers(tape, run.extent.positions(1))
        if model.finish_embedding is not None:
            return Embedded(x=model.finish_embedding(run, tokens), names=(tokens,), passed=(positions,))
        if model.position_embedding is None:
            return Embedded(x=tokens, passed=(positions,))
        table = run.parameter(model.position_embedding)
        placed = embedding(tape, table, positions, run.extent.positions(hidden))
        x = add(tape, tokens, placed)
        x = chain(tape, x, lambda t, value: dropout(t, value, model.spec.embedding_dropout))
        return Embedded(x=x, names=(tokens, placed), passed=(positions,))

    def _make_tables(self) -> None:
        """Make the rotary tables and the mask that every layer shares."""
        tape, run, model = self.tape, self.run, self.model
        for elements in model.rotary_tables:
            size = run.extent.positions(elements * run.table_dtype.bytes_per_element)
            self.tables.append(tape.allocate(Category.ACTIVATIONS, size))
        if run.attention is Attention.EAGER:
            mask = run.extent.mask(run.table_dtype.bytes_per_element)
            self.mask = tape.allocate(Category.ACTIVATIONS, mask)

    def _repeated(self, block: BlockModule, times: int, scope: str, x: Value) -> Value:
        """Record equal blocks as one; those that differ in what they keep are recorded apart, with weights of their own.

        The first one keeps less when its input has no gradient; with sharded units nothing is reduced before the last one.
        """
        apart_first = times > 1 and self.tape.records and not x.requires_grad
        apart_last = times - apart_first > 1 and self.units is not None
        counts = [1] * apart_first + [times - apart_first - apart_last] + [1] * apart_last
        for part, count in enumerate(counts):
            x = self.tape.repeat(count, self._runner(block, f"{scope}{part}."), x)
        return x

    def _runner(self, block: BlockModule, scope: str) -> Callable[[Value], Value]:
        tape, units = self.tape, self.units

        def run_block(x: Value) -> Value:
            return block.record(self.run, x, scope)

        def run_checkpointed(x: Value) -> Value:
            return tape.checkpoint(run_block, x)

        runner = run_checkpointed if self.checkpointed else run_block
        if units is None:
            return runner
        elements, trained = self.run.elements_of(block.weights(), block.linears())
        return lambda x: units.run(runner, x, elements=elements, trained=trained)

    def logits_of(self, hidden: Value, numel: Size) -> Value:
        """Record the head; ``hidden`` stays with the caller. The table is the embedding's when they are tied."""
        tape, model, run = self.tape, self.model, self.run
        table, *bias = run.parameters(model.head.weights(), "")
        source = model.finish_hidden(run, hidden) if model.finish_hidden is not None else tape.alias(hidden)
        weight = run.parameter(model.embedding) if model.tied else table
        logits = linear(tape, source, weight, numel, bias=bias[0] if bias else None, category=Category.LOGITS)
        tape.free(source)
        return logits

    def loss(self, hidden: Value, *, keeps_logits: bool) -> Value:
        """Record the head and the cross entropy over shifted labels, in fp32 (ForCausalLMLoss)."""
        tape, model, run = self.tape, self.model, self.run
        vocab = run.extent.tokens(model.vocab_size)
        tape.ledger.enter(Section.LOSS_FORWARD)
        logits = self.logits_of(hidden, vocab)
        if model.finish_logits is not None:
            logits = model.finish_logits(run, logits)
        upcast = cast(tape, logits, DType.FP32, category=Category.LOGITS)
        labels, padded = _labels(tape)
        loss = cross_entropy(tape, upcast, Value(labels, vocab, DType.FP32))
        tape.free(upcast, hidden)
        tape.release(labels, padded)
        if keeps_logits:
            self.logits = logits
        else:
            tape.free(logits)
        return loss

    def backward(self, loss: Value) -> None:
        """Record backward from the loss to the embedding."""
        tape = self.tape
        assert loss.node is not None  # noqa: S101 - something is trained, so the loss has a graph
        loss.node.grad = tape.scratch(loss.numel, loss.dtype)
        tape.run_backward()
        if self.units is not None:
            elements = self.model.counts.outside_blocks
            self.units.close_root(elements, elements if self.run.trains_all else 0)

    def _drop_tables(self) -> None:
        self.tape.release(*self.tables)
        if self.mask is not None and self.checkpointed:
            self.tape.release(self.mask)


def _labels(tape: Tape) -> tuple[Storage, Storage]:
    """Return the shifted labels and the padded ones that they were cut from: one storage for a single sequence."""
    shifted = sizes.add(sizes.per_token(INDEX_BYTES), sizes.per_sequence(INDEX_BYTES))
    padded = sizes.subtract(sizes.per_token(INDEX_BYTES), sizes.per_position(INDEX_BYTES))
    return tape.allocate(Category.ACTIVATIONS, shifted), tape.allocate(Category.ACTIVATIONS, padded)


def cross_entropy(tape: Tape, logits: Value, labels: Value) -> Value:
    """Return the mean loss: log-softmax keeps its output, the negative log-likelihood its labels.

    After the gradient of the log-softmax is made, the rest of backward begins.
    """
    one = sizes.constant(1)

    def log_softmax_backward(_: Storage) -> None:
        tape.send(logits, tape.allocate(Category.LOGITS, sizes.scale(logits.numel, 4)))
        tape.ledger.enter(Section.BACKWARD)

    def nll_backward(_: Storage) -> None:
        tape.send(probabilities, tape.allocate(Category.LOGITS, sizes.scale(logits.numel, 4)))

    probabilities = tape.emit(
        logits.numel,
        DType.FP32,
        inputs=(logits,),
        saves_output=True,
        category=Category.LOGITS,
        backward=log_softmax_backward,
    )
    loss = tape.emit(one, DType.FP32, inputs=(probabilities,), saves=(probabilities, labels), backward=nll_backward)
    tape.free(probabilities)
    return loss
