"""Walk over an encoder-decoder model.

The encoder is recorded first, then the decoder, which holds the encoder's output until the loss.
"""

from service.estimator.model.architecture import Architecture, EmbeddingOutput, Finish
from service.estimator.model.recording import Recording
from service.estimator.model.repeats import record_periods
from service.estimator.model.shared_inputs import SharedInputs, StackRecording
from service.estimator.model.trees.encoder_decoder import EncoderDecoder, LayerRuns
from service.estimator.passes.step import ModelWalk
from service.estimator.tape.cross_shape import CrossShape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain, multiply_scalar
from service.estimator.tape.ops.products import allocate_integers, embedding


class EncoderDecoderStep(ModelWalk):
    """One pass over both stacks.

    The decoder has as many tokens as the recording says, or as the sequence.
    """

    def __init__(self, model: Architecture, ctx: Recording) -> None:
        """Walk ``model`` on the tape of ``ctx``."""
        super().__init__(model, ctx)
        assert isinstance(model, EncoderDecoder)  # noqa: S101 - it names this class
        ctx.reads_ids = not model.encoder.frames_per_position
        settings, self.seq2seq = ctx.settings, model
        source = model.encoder.length or settings.length
        length = settings.decoder_length or settings.length
        padding = settings.shape.row_padding
        self.source = CrossShape(queries=source, keys=source, row_padding=padding)
        self.target = CrossShape(queries=length, keys=length, row_padding=padding)
        self.across = CrossShape(queries=length, keys=source, row_padding=padding)
        self.padded = ctx.padded and not model.ignores_padding
        self.memory: Value | None = None
        self.decoder_locals: list[Value] = []

    def inputs(self) -> Value:
        """Return the encoder's input.

        The labels, and a mask of padding, live as long as it does.
        """
        self.ctx.shape = self.source
        ids = self.seq2seq.encoder.inputs(self.ctx)
        if self.has_labels:
            allocate_integers(self.tape, self.target.tokens(1))
        if self.padded:
            allocate_integers(self.tape, self.source.tokens(1))
        self.ctx.shape = self.target
        return ids

    def hidden_states(self, ids: Value) -> Value:
        """Record both stacks."""
        if self.units is not None:
            self.units.open_root(self.model.counts.outside_blocks, self.model.counts.largest_block)
        encoding, decoding = self.seq2seq.stacks()
        self.memory = self.record_encoder(ids, encoding)
        return self.record_decoder(self.memory, decoding)

    def record_encoder(self, ids: Value, layers: LayerRuns) -> Value:
        """Record the encoder and return its output."""
        encoder = self.seq2seq.encoder
        ctx = StackRecording(self.ctx, SharedInputs(self.source, source=self.source))
        ctx.padded = self.padded
        return self._stack(ctx, encoder.embed(ctx, ids), layers, "encoder.", encoder.finish)

    def record_decoder(self, memory: Value | None, layers: LayerRuns) -> Value:
        """Record the decoder and return the input of the head.

        Without ``memory`` the keys and values of the encoder are in the cache.
        """
        model, tape = self.seq2seq, self.tape
        shared_inputs = SharedInputs(
            self.target, source=self.source, across=self.across, memory=memory, masked=self.padded
        )
        ctx = StackRecording(self.ctx, shared_inputs)
        ctx.padded = False
        shifted = allocate_integers(tape, self.target.tokens(1))
        tokens = embedding(
            tape,
            ctx.parameter(model.embedding),
            shifted,
            self.target.tokens(model.spec.hidden_size),
        )
        if model.scales_embedding:
            tokens = chain(tape, tokens, multiply_scalar)
        ctx.require_input_grad(tokens)
        assert model.embed is not None  # noqa: S101 - families of two stacks say what their decoder does
        embedded = model.embed(ctx, tokens)
        last = self._stack(ctx, embedded, layers, "decoder.", model.finish_decoder)
        self.decoder_locals = [shifted]
        if not model.scales_output:
            return last
        self.decoder_locals.append(last)
        return multiply_scalar(tape, last)

    def loss(self, hidden: Value, *, keeps_logits: bool) -> Value:
        """Record the head and the loss.

        The model's outputs hold the encoder's output beside the logits.
        """
        loss = super().loss(hidden, keeps_logits=keeps_logits)
        self.tape.free(*self.decoder_locals)
        if not keeps_logits and self.memory is not None:
            self.tape.free(self.memory)
        return loss

    def returned(self) -> tuple[Value, ...]:
        """Return what the model's outputs hold beside the loss."""
        return (*super().returned(), *(() if self.memory is None else (self.memory,)))

    def _stack(
        self,
        ctx: StackRecording,
        embedded: EmbeddingOutput,
        layers: LayerRuns,
        scope: str,
        finish: Finish,
    ) -> Value:
        """Record the layers and the end of one stack."""
        tape, shared_inputs = self.tape, ctx.shared_inputs
        arguments = (
            *embedded.layer_args,
            *((shared_inputs.memory,) if shared_inputs.memory is not None else ()),
        )
        self._hold_until_backward(*(arguments if self.checkpointed else ()))
        read_again: list[Storage] = []
        tape.hook(lambda: tape.release(*read_again))
        x = embedded.x
        for index, (members, times) in enumerate(layers):
            x = record_periods(ctx, members, times, f"{scope}{index}.", x)
            if index == 0 and self.checkpointed:
                self._hold_until_backward(*shared_inputs.biases.values())
        # What several layers keep is let go by the last of them that backward visits, not by each.
        saved = [
            value.storage
            for value in (*arguments, *shared_inputs.biases.values())
            if value.storage is not None
        ]
        if not self.checkpointed:
            read_again += [tape.hold(storage) for storage in saved if storage.references > 1]
        y = finish(ctx, x)
        tape.free(x, *embedded.names, *embedded.layer_args, *shared_inputs.biases.values())
        return y

    def _hold_until_backward(self, *values: Value) -> None:
        """Hold values until backward has been through all layers.

        Later layers read them again.
        """
        storages: list[Storage] = [
            self.tape.hold(value.storage) for value in values if value.storage is not None
        ]
        self.tape.hook(lambda: self.tape.release(*storages))
