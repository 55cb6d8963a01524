"""Walks a model: embedding, layers, final norm, head and loss, and backward through all of them."""

from service.estimator.model.architecture import Architecture, Embedded
from service.estimator.model.recording import Recording
from service.estimator.model.repeats import periods
from service.estimator.model.weights.collectives import shared_linear
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, cast, chain, dropout, multiply_scalar
from service.estimator.tape.ops.losses import plain_loss, shifted_loss
from service.estimator.tape.ops.products import embedding, integers, linear
from service.estimator.tape.sizes import Size
from service.estimator.tape.units import Units
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention


class Step:
    """One pass over the model: the values that outlive a call are its fields."""

    def __init__(self, model: Architecture, run: Recording, *, checkpointed: bool = False, units: Units | None = None) -> None:
        """Walk ``model`` on the tape of ``run``; ``units`` gather and reduce sharded parameters."""
        self.model, self.run, self.tape, self.units = model, run, run.tape, units
        self.checkpointed = run.checkpointed = checkpointed
        run.units = units
        self.tables: list[Storage] = []
        self.logits: Value | None = None
        self.passing: list[Storage] = []
        self.given: tuple[Value, ...] = ()
        self.masks = self.tables if checkpointed else self.passing

    def inputs(self) -> Value:
        """Return the token ids; a mask of padding that comes with the batch lives as long as they do."""
        ids = integers(self.tape, self.run.extent.tokens(1))
        if self.run.padded:
            integers(self.tape, self.run.extent.tokens(1))
        return ids

    def hidden_states(self, ids: Value) -> Value:
        """Record embedding, blocks and final norm."""
        if self.units is not None:
            counts, whole = self.model.counts, self.run.trains_all and not self.run.frozen
            head = self.model.head_unit_elements if whole else 0
            last = whole and not self.model.tied and not self.model.head.bias
            self.units.open_root(self.model.root_elements, counts.largest_block, head=head, ends_in_head=last)
        return self.stacked(ids)

    def stacked(self, ids: Value) -> Value:
        """Record the same with the root unit gathered already."""
        tape, model, run = self.tape, self.model, self.run
        embedded = self._embedded(ids)
        if self.units is not None:
            self.units.close_table()
        x, self.given = embedded.x, embedded.given
        run.table_dtype = model.rotary_dtype or x.dtype
        self._keep(embedded)
        self._make_tables(x.dtype)
        tape.hook(self._drop_tables)
        count = model.num_hidden_layers
        first = x.storage if embedded.named else None
        retained = tape.alias(x) if count == 1 and embedded.named else None
        mark = tape.ledger.mark()
        for index, (members, times) in enumerate(model.runs()):
            x = periods(run, members, times, f"{index}.", x)
        if first is not None and retained is None:
            tape.revive(mark, first)
        if self.units is not None:
            self.units.open_head()
        y = run.norm(model.final_norm, x, "") if model.final_norm is not None else tape.alias(x)
        tape.free(x, *embedded.names, *embedded.passed)
        tape.release(*self.passing)
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
        if model.scales_embedding:
            tokens = chain(tape, tokens, multiply_scalar)
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
        return Embedded(x=x, named=False, names=(tokens, placed), passed=(positions,))

    def _make_tables(self, hidden: DType) -> None:
        """Make the rotary tables and the masks that layers share: additive ones in ``hidden`` when eager, else booleans."""
        tape, run, model = self.tape, self.run, self.model
        lasting = self.tables if model.layers_keep_tables or self.checkpointed else self.passing
        for elements in model.rotary_tables:
            shape = run.extent.tokens if model.tables_per_token else run.extent.positions
            size = shape(elements * run.table_dtype.bytes_per_element)
            lasting.append(tape.allocate(Category.ACTIVATIONS, size))
        for window in model.masks:
            extent = run.reach(window)
            if run.attention is Attention.EAGER:
                self.masks.append(tape.allocate(Category.ACTIVATIONS, extent.mask(hidden.bytes_per_element)))
            elif run.masked(window):
                size = extent.mask(1) if run.padded else extent.shared_mask(1)
                self.masks.append(tape.allocate(Category.ACTIVATIONS, size))

    def logits_of(self, hidden: Value, numel: Size) -> Value:
        """Record the head; ``hidden`` stays with the caller. The table is the embedding's when they are tied."""
        tape, model, run = self.tape, self.model, self.run
        table, *bias = run.parameters(model.head.weights(), "")
        source = model.finish_hidden(run, hidden) if model.finish_hidden is not None else tape.alias(hidden)
        weight = run.parameter(model.embedding) if model.tied else table
        if model.head.ranks > 1:
            rows = sizes.rows(numel, model.vocab_size)
            logits = shared_linear(tape, model.head, source, table, rows=rows, bias=None, category=Category.LOGITS)
        else:
            logits = linear(tape, source, weight, numel, bias=bias[0] if bias else None, category=Category.LOGITS)
        tape.free(source)
        if self.units is not None:
            self.units.close_head()
        return logits

    def loss(self, hidden: Value, *, keeps_logits: bool) -> Value:
        """Record the head and the cross entropy."""
        tape, model, run = self.tape, self.model, self.run
        vocab = run.extent.tokens(model.vocab_size)
        tape.ledger.enter(Section.LOSS_FORWARD)
        logits = self.logits_of(hidden, vocab)
        if model.finish_logits is not None:
            logits = model.finish_logits(run, logits)
        if run.returns_fp32:
            logits = chain(tape, logits, lambda t, value: cast(t, value, DType.FP32, category=Category.LOGITS))
        if model.shifts_labels:
            loss = shifted_loss(tape, logits, copies=run.copies_logits)
        else:
            loss = plain_loss(tape, logits, upcast=model.upcasts_logits)
        tape.free(hidden)
        if keeps_logits:
            self.logits = logits
        else:
            tape.free(logits, *self.given)
        return loss

    def backward(self, loss: Value) -> None:
        """Record backward from the loss to the embedding."""
        tape = self.tape
        assert loss.node is not None  # noqa: S101 - something is trained, so the loss has a graph
        loss.node.grad = tape.scratch(loss.numel, loss.dtype)
        tape.run_backward()
        if self.units is not None:
            elements = self.model.root_elements
            self.units.close_root(elements, self._trained_outside() if self.run.trains_all else 0)

    def _trained_outside(self) -> int:
        """Return the elements outside of the layers that get a gradient: trained, and not of an image tower left idle."""
        outside, run, images = self.model.root_elements, self.run, self.model.images
        if not run.frozen and images is None:
            return outside
        inside = {weight for block, _ in self.model.blocks for weight in block.weights()} | {*self.model.tower_layer_weights}
        idle = images.idle(run.images) if images is not None else frozenset()
        return outside - sum(
            weight.numel
            for weight, _ in self.model.weights()
            if weight not in inside and (weight.name in idle or not run.trains(weight))
        )

    def _drop_tables(self) -> None:
        self.tape.release(*self.tables)
