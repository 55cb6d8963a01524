"""Walk over a model, forward and backward.

It goes through embedding, layers, final norm, head and loss, and backward through all of them.
"""

from service.estimator.model.architecture import Architecture, EmbeddingOutput, Masks
from service.estimator.model.layer_tables import LayerTables, make_masks
from service.estimator.model.modules.joined import normalise_last
from service.estimator.model.recorded.narrowing import get_unread_names
from service.estimator.model.recording import Recording
from service.estimator.model.repeats import begins_alone, record_periods
from service.estimator.model.root_unit import count_added_to_root, count_trained_outside
from service.estimator.model.task_head import TaskHead
from service.estimator.model.weights.collectives import apply_sharded_linear
from service.estimator.passes.heads import list_task_labels, record_task, record_task_loss
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, cast, chain, dropout, multiply_scalar
from service.estimator.tape.ops.loss.losses import compute_shifted_loss, compute_unshifted_loss
from service.estimator.tape.ops.products import allocate_integers, embedding, linear
from service.estimator.tape.ops.rotary import make_rotary_tables
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError
from service.estimator.values.heads import Head


class ModelWalk:
    """One pass over the model.

    The values that outlive a call are its fields.
    """

    def __init__(self, model: Architecture, ctx: Recording) -> None:
        """Walk ``model`` on the tape of ``ctx``."""
        self.model, self.ctx, self.tape, self.units = model, ctx, ctx.tape, ctx.units
        self.checkpointed, self.has_labels = ctx.settings.checkpointed, ctx.tape.builds_graph
        self.tables: list[Storage] = []
        self.layer_tables = LayerTables(ctx.tape, model)
        self.logits: Value | None = None
        self.forward_storages: list[Storage] = []
        self.outputs: tuple[Value, ...] = ()

    def inputs(self) -> Value:
        """Return the token ids.

        A mask of padding that comes with the batch lives as long as they do.
        """
        ids = allocate_integers(self.tape, self.ctx.shape.tokens(1))
        if self.ctx.padded:
            allocate_integers(self.tape, self.ctx.shape.tokens(1))
        if self.model.task is not None and self.has_labels:
            for size in list_task_labels(self.ctx, self.model, self.model.task):
                self.tape.allocate(Category.ACTIVATIONS, size)
        return ids

    def hidden_states(self, ids: Value) -> Value:
        """Record embedding, blocks and final norm."""
        if self.units is not None:
            counts, trains_whole_model = (
                self.model.counts,
                self.ctx.settings.trains_all and not self.ctx.settings.frozen,
            )
            head = self.model.head_unit_elements if trains_whole_model else 0
            ends_in_head = not self.model.tied and not self.model.head.bias
            last = trains_whole_model and ends_in_head and self.model.task is None
            config = self.units.config
            added, _ = count_added_to_root(self.ctx, self.model, config)
            self.units.open_root(
                self.model.root_elements + added,
                counts.largest_block,
                head=head,
                ends_in_head=last,
            )
        return self.record_layers(ids)

    def record_layers(self, ids: Value) -> Value:
        """Record embedding, blocks and final norm.

        The root unit is gathered already.
        """
        tape, model, ctx = self.tape, self.model, self.ctx
        if ctx.settings.ends_tables_late:
            tape.hook(self.drop_tables)
        embedded = self._embedded(ids)
        if model.images is not None:
            ctx.num_recorded_layers = model.images.num_layers
        if self.units is not None:
            self.units.close_embedding()
        x, self.outputs = embedded.x, embedded.outputs
        ctx.table_dtype = model.rotary_dtype or x.dtype
        self._hold_embedding(embedded)
        self._make_tables(x.dtype, embedded.masks)
        if not ctx.settings.ends_tables_late:
            tape.hook(self.drop_tables)
        first = x.storage if embedded.x_is_local else None
        x = self.record_runs(x, first)
        if self.units is not None:
            self.units.open_head()
        final = model.final_norm
        y = normalise_last(ctx, final, x) if final is not None else tape.alias(x)
        tape.free(x)
        if model.finish_body is not None:
            finished = model.finish_body(ctx, y)
            tape.free(y)
            y = finished
        tape.free(*embedded.names, *embedded.layer_args)
        tape.release(*self.forward_storages)
        if first is not None:
            tape.release(first)
        return y

    def record_runs(self, x: Value, first: Storage | None) -> Value:
        """Record the layers; ``first``, where it is given, stays with the caller.

        Layers that are recorded as one have an input each beside it.
        """
        tape, ctx, runs = self.tape, self.ctx, self.layer_tables.list_runs()
        retained = first is not None and begins_alone(ctx, *runs[0], x)
        if retained:
            tape.hold_value(x)
        mark = tape.ledger.mark()
        for index, run in enumerate(runs):
            self.layer_tables.enter(run)
            x = record_periods(ctx, *run, f"{index}.", x)
        if first is not None and not retained:
            tape.revive(mark, first)
        return x

    def _hold_embedding(self, embedded: EmbeddingOutput) -> None:
        """Hold the values that outlive forward.

        Backward releases them when it has been through all layers.
        """
        values = (*embedded.layer_args, *embedded.saved) if self.checkpointed else embedded.saved
        for value in values:
            if value.storage is not None:
                self.tables.append(self.tape.hold(value.storage))
        self.tape.free(*embedded.saved)

    def _embedded(self, ids: Value) -> EmbeddingOutput:
        """Return the first hidden state, and the values forward still names."""
        tape, model, ctx = self.tape, self.model, self.ctx
        hidden = model.spec.hidden_size
        tokens = embedding(
            tape, ctx.parameter(model.embedding), ids, ctx.shape.tokens(model.embedding.shape[1])
        )
        if model.scales_embedding and not ctx.settings.unsloth:  # in place there
            tokens = chain(tape, tokens, multiply_scalar)
        ctx.require_input_grad(tokens)
        if model.embed is not None:
            return model.embed(ctx, tokens)
        if ctx.settings.unsloth and not ctx.settings.position_ids:
            return EmbeddingOutput(x=tokens)
        positions = allocate_integers(tape, ctx.shape.positions(1))
        if model.finish_embedding is not None:
            return EmbeddingOutput(
                x=model.finish_embedding(ctx, tokens), names=(tokens,), layer_args=(positions,)
            )
        if model.position_embedding is None:
            return EmbeddingOutput(x=tokens, layer_args=(positions,))
        table = ctx.parameter(model.position_embedding)
        placed = embedding(tape, table, positions, ctx.shape.positions(hidden))
        x = add(tape, tokens, placed)
        x = chain(tape, x, lambda t, value: dropout(t, value, model.spec.embedding_dropout))
        return EmbeddingOutput(
            x=x, x_is_local=False, names=(tokens, placed), layer_args=(positions,)
        )

    def _make_tables(self, hidden: DType, own_masks: Masks = ()) -> None:
        """Make the masks and the rotary tables that layers share.

        ``own_masks``, by their windows, are there already.
        """
        tape, ctx, model = self.tape, self.ctx, self.model
        outlive = tape.builds_graph and (model.layers_keep_tables or self.checkpointed)
        shared_masks = own_masks or make_masks(ctx, model.masks, hidden)
        masks = {key: mask.storage for key, mask in shared_masks if mask.storage is not None}
        shape = ctx.shape.tokens if model.tables_per_token else ctx.shape.positions
        elements = () if ctx.settings.unsloth else model.rotary_tables
        tables = make_rotary_tables(tape, elements, shape, ctx.table_dtype)
        if outlive and ctx.settings.ends_tables_early:
            tables, unread = self.layer_tables.divide(tables, masks)
            self.tables += tables
            self.forward_storages += unread
            return
        (self.tables if outlive else self.forward_storages).extend(tables)
        (self.tables if self.checkpointed else self.forward_storages).extend(masks.values())

    def record_logits(self, hidden: Value, numel: Size) -> Value:
        """Record the head; ``hidden`` stays with the caller.

        The table is the embedding's when they are tied.
        """
        tape, model, ctx = self.tape, self.model, self.ctx
        table, *bias = ctx.parameters(model.head.weights(), "")
        source = (
            model.finish_hidden(ctx, hidden)
            if model.finish_hidden is not None
            else tape.alias(hidden)
        )
        weight = ctx.parameter(model.embedding) if model.tied else table
        if model.head.ranks > 1:
            rows = sizes.count_rows(numel, model.vocab_size)
            logits = apply_sharded_linear(
                tape, model.head, source, table, rows=rows, bias=None, category=Category.LOGITS
            )
        else:
            logits = linear(
                tape,
                source,
                weight,
                numel,
                bias=bias[0] if bias else None,
                category=Category.LOGITS,
            )
        tape.free(source)
        if self.units is not None:
            self.units.close_head()
        return logits

    def loss(self, hidden: Value, *, keeps_logits: bool) -> Value:
        """Record the head and the cross entropy."""
        tape, model, ctx = self.tape, self.model, self.ctx
        if model.task is not None:
            return self._record_task_loss(hidden, model.task, keeps_logits=keeps_logits)
        vocab = ctx.shape.tokens(model.vocab_size)
        tape.ledger.enter(Section.LOSS_FORWARD)
        logits = self.record_logits(hidden, vocab)
        if model.finish_logits is not None:
            logits = model.finish_logits(ctx, logits)
        if ctx.settings.returns_fp32:
            logits = chain(
                tape, logits, lambda t, value: cast(t, value, DType.FP32, category=Category.LOGITS)
            )
        if model.shifts_labels:
            loss = compute_shifted_loss(tape, logits, copies=ctx.settings.copies_logits)
        else:
            loss = compute_unshifted_loss(tape, logits, upcast=model.upcasts_logits)
        tape.free(hidden)
        if keeps_logits:
            self.logits = logits
        else:
            tape.free(logits, *self.outputs)
        return loss

    def _record_task_loss(self, hidden: Value, task: TaskHead, *, keeps_logits: bool) -> Value:
        """Record the head of another task and its loss."""
        tape = self.tape
        tape.ledger.enter(Section.LOSS_FORWARD)
        scored = record_task(self.ctx, self.model, task, hidden)
        if self.units is not None:
            self.units.close_head()
            if task.kind is Head.NONE and self.model.final_norm is None:
                self.units.return_block()
        loss, returned = record_task_loss(self.ctx, self.model, task, scored)
        tape.free(hidden)
        self.outputs = (*returned, *self.outputs)
        if not keeps_logits:
            tape.free(*self.outputs)
        return loss

    def returned(self) -> tuple[Value, ...]:
        """Return what the model's outputs hold beside the loss, if kept."""
        return (*(() if self.logits is None else (self.logits,)), *self.outputs)

    def backward(self, loss: Value) -> None:
        """Record backward from the loss to the embedding."""
        tape = self.tape
        if loss.node is None:
            message = f"adapters that no linear layer of {self.model.family} takes"
            raise NotModelledError(message, field="workload.lora", modelled=["method full"])
        loss.node.grad = tape.scratch(loss.numel, loss.dtype)
        tape.run_backward()
        if self.units is not None:
            model, ctx, config = self.model, self.ctx, self.units.config
            added, adapted = count_added_to_root(ctx, model, config)
            trained = count_trained_outside(ctx, model, get_unread_names(model))
            self.units.close_root(
                model.root_elements + added,
                trained if ctx.settings.trains_all else adapted,
            )

    def drop_tables(self) -> None:
        """Drop what backward has read for the last time."""
        self.tape.release(*self.tables)
