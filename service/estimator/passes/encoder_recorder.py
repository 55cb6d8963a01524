"""Serving of models with an encoder, recorded: one forward pass, or an encoder's and then a decoder's steps."""

from collections.abc import Callable

from service.estimator.model.architecture import Architecture
from service.estimator.model.recording import Recording
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.passes.encoder_decoder import EncoderDecoderStep
from service.estimator.passes.recorder import Highs, ServingPass, walker_of
from service.estimator.tape.cross_shape import Span
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.nodes import Value, bytes_of

Run = Callable[[Tape, Recording], None]


def record_encoding(model: Architecture, how: ServingPass) -> Highs:
    """Return the highest points of a forward pass (``s`` = prompt), and of the last decode step where there is a decoder."""
    if not isinstance(model, EncoderDecoder):
        return _recorded(Section.PREFILL, how, lambda _, run: _forward(model, run, how))
    highs = _recorded(Section.PREFILL, how, lambda tape, run: _started(tape, run, model, how))
    if how.decoder_output:
        highs |= _recorded(Section.DECODE, how, lambda tape, run: _continued(tape, run, model, how))
    return highs


def _recorded(section: Section, how: ServingPass, record: Run) -> Highs:
    tape = Tape(section, Mode.INFERENCE)
    record(tape, Recording(tape, dtype=how.dtype, trains_all=False, attention=how.attention, lora=None))
    return tape.ledger.highest()


def _forward(model: Architecture, run: Recording, how: ServingPass) -> None:
    """Record an encoder with its head on every position."""
    run.window_reached, run.images = how.prefill_window is not None, how.images
    step = walker_of(model)(model, run)
    hidden = step.hidden_states(step.inputs())
    run.tape.free(step.logits_of(hidden, run.extent.tokens(model.vocab_size)), hidden)


def _started(tape: Tape, run: Recording, model: EncoderDecoder, how: ServingPass) -> None:
    """Record the encoder, then the decoder's first step, which fills the caches of both kinds."""
    run.decoder_length = how.decoder_start
    step = EncoderDecoderStep(model, run)
    encoding, decoding = model.stacks()
    memory = step.encoded(step.inputs(), encoding)
    run.store = how.store
    _read(tape, step, step.decoded(memory, decoding))


def _continued(tape: Tape, run: Recording, model: EncoderDecoder, how: ServingPass) -> None:
    """Record the last step: one query, and keys of all tokens and of the encoder's positions out of the caches.

    Who generates holds the input and what the encoder gave until the end (``model_kwargs["encoder_outputs"]``).
    """
    run.decoder_length, run.store = 1, how.store
    step = EncoderDecoderStep(model, run)
    step.inputs()
    held = step.source.tokens(model.spec.hidden_size)
    tape.allocate(Category.ACTIVATIONS, bytes_of(held, how.dtype))
    step.target = Span(queries=1, keys=how.decoder_start + how.decoder_output, decoding=True)
    _read(tape, step, step.decoded(None, model.stacks()[1]))


def _read(tape: Tape, step: EncoderDecoderStep, hidden: Value) -> None:
    """Record the head on every position of the decoder's."""
    logits = step.logits_of(hidden, step.target.tokens(step.model.vocab_size))
    if step.model.finish_logits is not None:
        logits = step.model.finish_logits(step.run, logits)
    tape.free(logits, hidden)
