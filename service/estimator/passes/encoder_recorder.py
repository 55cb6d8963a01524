"""Recorded serving passes of models with an encoder.

They are one forward pass, or an encoder's pass and a decoder's steps after it.
"""

from dataclasses import replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.pass_context import PassContext
from service.estimator.model.recording import Recording
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.passes.config import (
    PeakCandidates,
    ServingPass,
    get_walk_class,
    resolve_attention,
)
from service.estimator.passes.encoder_decoder import EncoderDecoderStep
from service.estimator.passes.heads import record_task
from service.estimator.tape.cross_shape import CrossShape
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.nodes import Value, count_bytes


def record_encoding(model: Architecture, config: ServingPass) -> PeakCandidates:
    """Return the highest points of a forward pass (``s`` = prompt).

    Where there is a decoder, those of its last decode step are among them.
    """
    if not isinstance(model, EncoderDecoder):
        return _record_forward(model, config)
    candidates = _record_first_step(model, config)
    if config.decoder_output:
        candidates |= _record_last_step(model, config)
    return candidates


def _record_forward(model: Architecture, config: ServingPass) -> PeakCandidates:
    """Record one forward pass with the model's head."""
    settings = replace(
        _build_context(config),
        attention=resolve_attention(model, config.attention),
        window_reached=config.prefill_window is not None,
        images=config.images,
        batched=config.batched,
        length=config.length,
    )
    tape = Tape(Section.PREFILL, Mode.INFERENCE)
    ctx = Recording(tape, settings)
    walk = get_walk_class(model)(model, ctx)
    hidden = walk.hidden_states(walk.inputs())
    if model.task is not None:
        outputs = record_task(ctx, model, model.task, hidden)
        tape.free(outputs.scores, *outputs.names, hidden)
    else:
        tape.free(walk.record_logits(hidden, ctx.shape.tokens(model.vocab_size)), hidden)
    return tape.ledger.find_peak_candidates()


def _record_first_step(model: EncoderDecoder, config: ServingPass) -> PeakCandidates:
    """Record the encoder and the decoder's first step.

    The step fills the caches of both kinds; the encoder has none.
    """
    tape = Tape(Section.PREFILL, Mode.INFERENCE)
    ctx = Recording(tape, replace(_build_context(config), decoder_length=config.decoder_start))
    walk = EncoderDecoderStep(model, ctx)
    encoding, decoding = model.stacks()
    memory = walk.record_encoder(walk.inputs(), encoding)
    ctx.cache = config.cache
    _record_logits(tape, walk, walk.record_decoder(memory, decoding))
    return tape.ledger.find_peak_candidates()


def _record_last_step(model: EncoderDecoder, config: ServingPass) -> PeakCandidates:
    """Record the last step.

    It has one query, and keys of all tokens and of the encoder's positions out of the caches. The
    generating loop holds the input and the encoder's output until the end
    (``model_kwargs["encoder_outputs"]``).
    """
    tape = Tape(Section.DECODE, Mode.INFERENCE)
    settings = replace(_build_context(config), decoder_length=1, cache=config.cache)
    walk = EncoderDecoderStep(model, Recording(tape, settings))
    walk.inputs()
    hidden_size = walk.source.tokens(model.spec.hidden_size)
    tape.allocate(Category.ACTIVATIONS, count_bytes(hidden_size, config.dtype))
    walk.target = CrossShape(
        queries=1, keys=config.decoder_start + config.decoder_output, decoding=True
    )
    _record_logits(tape, walk, walk.record_decoder(None, model.stacks()[1]))
    return tape.ledger.find_peak_candidates()


def _build_context(config: ServingPass) -> PassContext:
    """Return the settings that all passes over an encoder have in common."""
    return PassContext(dtype=config.dtype, compute_dtype=config.dtype, attention=config.attention)


def _record_logits(tape: Tape, walk: EncoderDecoderStep, hidden: Value) -> None:
    """Record the head on every position of the decoder."""
    logits = walk.record_logits(hidden, walk.target.tokens(walk.model.vocab_size))
    if walk.model.finish_logits is not None:
        logits = walk.model.finish_logits(walk.ctx, logits)
    tape.free(logits, hidden)
