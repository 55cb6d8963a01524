"""Recorded serving passes of models with an encoder.

They are one forward pass, or an encoder's pass and a decoder's steps after it.
"""

from collections.abc import Callable

from service.estimator.model.architecture import Architecture
from service.estimator.model.recording import Recording
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.passes.encoder_decoder import EncoderDecoderStep
from service.estimator.passes.recorder import PeakCandidates, ServingPass, get_walk_class
from service.estimator.tape.cross_shape import CrossShape
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.nodes import Value, count_bytes

RecordPass = Callable[[Tape, Recording], None]


def record_encoding(model: Architecture, config: ServingPass) -> PeakCandidates:
    """Return the highest points of a forward pass (``s`` = prompt).

    Where there is a decoder, those of its last decode step are among them.
    """
    if not isinstance(model, EncoderDecoder):
        return _record_section(
            Section.PREFILL, config, lambda _, run: _record_forward(model, run, config)
        )
    candidates = _record_section(
        Section.PREFILL, config, lambda tape, run: _record_first_step(tape, run, model, config)
    )
    if config.decoder_output:
        candidates |= _record_section(
            Section.DECODE, config, lambda tape, run: _record_last_step(tape, run, model, config)
        )
    return candidates


def _record_section(section: Section, config: ServingPass, record: RecordPass) -> PeakCandidates:
    tape = Tape(section, Mode.INFERENCE)
    record(
        tape,
        Recording(
            tape, dtype=config.dtype, trains_all=False, attention=config.attention, lora=None
        ),
    )
    return tape.ledger.find_peak_candidates()


def _record_forward(model: Architecture, ctx: Recording, config: ServingPass) -> None:
    """Record an encoder with its head on every position."""
    ctx.window_reached, ctx.images = config.prefill_window is not None, config.images
    walk = get_walk_class(model)(model, ctx)
    hidden = walk.hidden_states(walk.inputs())
    ctx.tape.free(walk.record_logits(hidden, ctx.shape.tokens(model.vocab_size)), hidden)


def _record_first_step(
    tape: Tape, ctx: Recording, model: EncoderDecoder, config: ServingPass
) -> None:
    """Record the encoder and the decoder's first step.

    The step fills the caches of both kinds.
    """
    ctx.decoder_length = config.decoder_start
    walk = EncoderDecoderStep(model, ctx)
    encoding, decoding = model.stacks()
    memory = walk.record_encoder(walk.inputs(), encoding)
    ctx.cache = config.cache
    _record_logits(tape, walk, walk.record_decoder(memory, decoding))


def _record_last_step(
    tape: Tape, ctx: Recording, model: EncoderDecoder, config: ServingPass
) -> None:
    """Record the last step.

    It has one query, and keys of all tokens and of the encoder's positions out of the caches. The
    generating loop holds the input and the encoder's output until the end
    (``model_kwargs["encoder_outputs"]``).
    """
    ctx.decoder_length, ctx.cache = 1, config.cache
    walk = EncoderDecoderStep(model, ctx)
    walk.inputs()
    hidden_size = walk.source.tokens(model.spec.hidden_size)
    tape.allocate(Category.ACTIVATIONS, count_bytes(hidden_size, config.dtype))
    walk.target = CrossShape(
        queries=1, keys=config.decoder_start + config.decoder_output, decoding=True
    )
    _record_logits(tape, walk, walk.record_decoder(None, model.stacks()[1]))


def _record_logits(tape: Tape, walk: EncoderDecoderStep, hidden: Value) -> None:
    """Record the head on every position of the decoder."""
    logits = walk.record_logits(hidden, walk.target.tokens(walk.model.vocab_size))
    if walk.model.finish_logits is not None:
        logits = walk.model.finish_logits(walk.ctx, logits)
    tape.free(logits, hidden)
