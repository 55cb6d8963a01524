"""Walk over LitGPT's model in one of its fine-tuning scripts (``litgpt/finetune/*.py``)."""

from service.estimator.backends.litgpt.linears import apply_linear
from service.estimator.backends.litgpt.loss import (
    CHUNK_TOKENS,
    cast_in_chunks,
    cast_to_fp32,
    compute_chunked_loss,
    drop_last,
)
from service.estimator.backends.litgpt.model import LitGptSpec
from service.estimator.backends.litgpt.norms import normalise
from service.estimator.backends.litgpt.products import unpack_weight
from service.estimator.model.architecture import Architecture
from service.estimator.model.recording import Recording
from service.estimator.passes.step import ModelWalk
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.elementwise import chain, multiply_scalar
from service.estimator.tape.ops.products import (
    allocate_integers,
    copy_contiguous,
    embedding,
    view_heads,
)
from service.estimator.tape.ops.views import narrow
from service.estimator.values.dtypes import DType


class LitGptStep(ModelWalk):
    """One micro batch: all of it in fp32 from the logits on.

    Lightning's Fabric casts what a module returns to fp32 (``plugins/precision/half.py``,
    ``convert_output``). The loop has a name for the logits until the next ones are there.
    """

    def __init__(self, model: Architecture, ctx: Recording) -> None:
        """Walk ``model`` on the tape of ``ctx``."""
        super().__init__(model, ctx)
        spec = model.spec
        assert isinstance(spec, LitGptSpec)  # noqa: S101 - whoever made the model
        self.spec = spec
        self.last_batch: list[Storage] = []

    def inputs(self) -> Value:
        """Return the token ids.

        Labels and rotary tables live as long as they do.
        """
        tape, shape = self.tape, self.ctx.shape
        ids = allocate_integers(tape, shape.tokens(1))
        allocate_integers(tape, shape.tokens(1))
        for _ in range(2):
            allocate_integers(tape, shape.positions(self.spec.rope_dim), bytes_each=4)
        if self.spec.follows_equal:
            self._hold_last_batch()
        return ids

    def _hold_last_batch(self) -> None:
        """Hold what the loop names of the batch before.

        It does until this one's logits are returned. The logits' graph is beside them, with what
        bitsandbytes hung on its nodes.
        """
        tape, spec, tokens = self.tape, self.spec, self.ctx.shape.tokens
        logits = count_bytes(tokens(spec.vocab_size), DType.FP32)
        inputs = count_bytes(tokens(spec.kept_input_width), self.ctx.settings.compute_dtype)
        self.last_batch = [
            tape.allocate(Category.LOGITS, logits),
            tape.allocate(Category.ACTIVATIONS, inputs),
        ]

    def _return(self, logits: Value) -> None:
        """Give the name of the logits to those that are returned."""
        self.logits = logits
        self.tape.release(*self.last_batch)
        self.last_batch = []

    def record_layers(self, ids: Value) -> Value:
        """Record embedding, blocks and final norm.

        The loop over blocks has one name, which each output takes.
        """
        tape, model, ctx = self.tape, self.model, self.ctx
        table = ctx.parameter(model.embedding)
        x = embedding(tape, table, ids, ctx.shape.tokens(model.spec.hidden_size))
        if self.units is not None:
            self.units.close_embedding()
        if self.spec.scales_embedding:
            x = chain(tape, x, multiply_scalar)
        x = self.record_runs(x, None)
        if self.units is not None:
            self.units.open_head()
        y = normalise(ctx, self.spec.final_norm, x, "", self.spec.code)
        tape.free(x)
        return y

    def loss(self, hidden: Value, *, keeps_logits: bool) -> Value:
        """Record the head and the loss.

        Both are in chunks unless all weights are trained.
        """
        del keeps_logits
        self.tape.ledger.enter(Section.LOSS_FORWARD)
        if self.ctx.settings.trains_all:
            return self._record_whole(hidden)
        return self._record_chunks(hidden)

    def _record_chunks(self, hidden: Value) -> Value:
        """Record a head that runs over ``lm_head_chunk_size`` tokens at a time."""
        tape, vocab, shape = self.tape, self.model.vocab_size, self.ctx.shape
        chunk = sizes.per_sequence(CHUNK_TOKENS * vocab)
        source = view_heads(tape, tape.alias(hidden))
        logits = self._apply_head(source)
        if self.ctx.settings.packs(self.model.head):
            # The last chunk's weight is unpacked beside all logits before it.
            tape.release(*unpack_weight(self.ctx, self.model.head, source.dtype))
        tape.free(source, hidden)
        returned = cast_in_chunks(tape, logits, DType.FP32, chunk)
        tape.free(logits)
        self._return(returned)
        rows = sizes.subtract(shape.tokens(1), sizes.per_sequence(1))
        shifted = drop_last(tape, returned, sizes.scale(rows, vocab))
        loss = compute_chunked_loss(tape, shifted, rows, chunk)
        tape.free(shifted)
        return loss

    def _record_whole(self, hidden: Value) -> Value:
        """Record all logits; the loss takes 128 rows at a time."""
        tape, vocab, shape = self.tape, self.model.vocab_size, self.ctx.shape
        logits = self._apply_head(hidden)
        tape.free(hidden)
        returned = cast_to_fp32(tape, logits)
        tape.free(logits)
        self._return(returned)
        rows = sizes.subtract(shape.tokens(1), sizes.per_sequence(1))
        shifted = narrow(tape, returned, sizes.scale(rows, vocab))
        read = chain(tape, shifted, copy_contiguous) if self.ctx.settings.batched else shifted
        pieces = view_heads(tape, read)
        loss = compute_chunked_loss(tape, pieces, rows, sizes.constant(CHUNK_TOKENS * vocab))
        tape.free(pieces)
        return loss

    def _apply_head(self, hidden: Value) -> Value:
        """Return the logits; ``hidden`` stays with the caller."""
        logits = apply_linear(
            self.ctx, self.model.head, hidden, "", code=self.spec.code, category=Category.LOGITS
        )
        if self.units is not None:
            self.units.close_head()
        return logits
