"""Walks a model of two stacks: the encoder first, then the decoder, which holds what the encoder gave until the loss."""

from service.estimator.model.architecture import Architecture, Embedded, Finish
from service.estimator.model.recording import Recording
from service.estimator.model.repeats import periods
from service.estimator.model.shared_inputs import Passing, StackRecording
from service.estimator.model.trees.encoder_decoder import EncoderDecoder, Runs
from service.estimator.passes.step import Step
from service.estimator.tape.cross_shape import Span
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain, multiply_scalar
from service.estimator.tape.ops.products import embedding, integers
from service.estimator.tape.units import Units


class EncoderDecoderStep(Step):
    """One pass over both stacks; the decoder has as many tokens as the run says, or as the sequence."""

    def __init__(self, model: Architecture, run: Recording, *, checkpointed: bool = False, units: Units | None = None) -> None:
        """Walk ``model`` on the tape of ``run``."""
        super().__init__(model, run, checkpointed=checkpointed, units=units)
        assert isinstance(model, EncoderDecoder)  # noqa: S101 - it names this class
        self.pair, length = model, run.decoder_length
        self.source = Span(queries=model.encoder.length, keys=model.encoder.length)
        self.target = Span(queries=length, keys=length)
        self.across = Span(queries=length, keys=model.encoder.length)
        self.padded = run.padded and not model.ignores_padding
        # Gradients of what all layers read are made by the last layer and added to by the others, in place.
        run.last_differs = run.tape.records
        self.memory: Value | None = None
        self.named: list[Value] = []

    def inputs(self) -> Value:
        """Return the encoder's input; the labels, and a mask of padding, live as long as it does."""
        self.run.extent = self.source
        ids = self.pair.encoder.inputs(self.run)
        if self.tape.records:
            integers(self.tape, self.target.tokens(1))
        if self.padded:
            integers(self.tape, self.source.tokens(1))
        self.run.extent = self.target
        return ids

    def hidden_states(self, ids: Value) -> Value:
        """Record both stacks."""
        if self.units is not None:
            self.units.open_root(self.model.counts.outside_blocks, self.model.counts.largest_block)
        encoding, decoding = self.pair.stacks()
        self.memory = self.encoded(ids, encoding)
        return self.decoded(self.memory, decoding)

    def encoded(self, ids: Value, layers: Runs) -> Value:
        """Record the encoder and return what it gives."""
        encoder = self.pair.encoder
        run = StackRecording(self.run, Passing(self.source, source=self.source))
        run.padded = self.padded
        return self._stack(run, encoder.embed(run, ids), layers, "encoder.", encoder.finish)

    def decoded(self, memory: Value | None, layers: Runs) -> Value:
        """Record the decoder and return what the head reads; without ``memory`` its keys and values are in the cache."""
        model, tape = self.pair, self.tape
        passing = Passing(self.target, source=self.source, across=self.across, memory=memory, masked=self.padded)
        run = StackRecording(self.run, passing)
        run.padded = False
        shifted = integers(tape, self.target.tokens(1))
        tokens = embedding(tape, run.parameter(model.embedding), shifted, self.target.tokens(model.spec.hidden_size))
        if model.scales_embedding:
            tokens = chain(tape, tokens, multiply_scalar)
        if self.checkpointed and run.lora is not None:
            tape.require_grad(tokens)  # PEFT's enable_input_require_grads
        assert model.embed is not None  # noqa: S101 - families of two stacks say what their decoder does
        embedded = model.embed(run, tokens)
        last = self._stack(run, embedded, layers, "decoder.", model.finish_decoder)
        self.named = [shifted]
        if not model.scales_output:
            return last
        self.named.append(last)
        return multiply_scalar(tape, last)

    def loss(self, hidden: Value, *, keeps_logits: bool) -> Value:
        """Record the head and the loss; the answer holds what the encoder gave beside the logits."""
        loss = super().loss(hidden, keeps_logits=keeps_logits)
        self.tape.free(*self.named)
        if not keeps_logits and self.memory is not None:
            self.tape.free(self.memory)
        return loss

    def _stack(self, run: StackRecording, embedded: Embedded, layers: Runs, scope: str, finish: Finish) -> Value:
        """Record the layers of one stack and what follows them."""
        tape, passing = self.tape, run.passing
        shared = (*embedded.passed, *((passing.memory,) if passing.memory is not None else ()))
        self._hold_until_backward(*(shared if self.checkpointed else ()))
        read_again: list[Storage] = []
        tape.hook(lambda: tape.release(*read_again))
        x = embedded.x
        for index, (members, times) in enumerate(layers):
            x = periods(run, members, times, f"{scope}{index}.", x)
            if index == 0 and self.checkpointed:
                self._hold_until_backward(*passing.biases.values())
        # What several layers keep is let go by the last of them that backward visits, not by each.
        kept = [value.storage for value in (*shared, *passing.biases.values()) if value.storage is not None]
        if not self.checkpointed:
            read_again += [tape.hold(storage) for storage in kept if storage.references > 1]
        y = finish(run, x)
        tape.free(x, *embedded.names, *embedded.passed, *passing.biases.values())
        return y

    def _hold_until_backward(self, *values: Value) -> None:
        """Hold what later layers read again until backward has been through all of them."""
        held: list[Storage] = [self.tape.hold(value.storage) for value in values if value.storage is not None]
        self.tape.hook(lambda: self.tape.release(*held))
