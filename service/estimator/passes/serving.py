"""Recorded serving passes: prefill, and decode steps."""

from dataclasses import replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.pass_context import PassContext
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.model.recording import Recording
from service.estimator.passes.config import (
    PeakCandidates,
    ServingPass,
    get_walk_class,
    resolve_attention,
)
from service.estimator.passes.encoder_recorder import record_encoding
from service.estimator.passes.generation import choose_tokens, hold_scores, hold_sequences
from service.estimator.passes.step import ModelWalk
from service.estimator.tape import sizes
from service.estimator.tape.cache_log import CachePass, CacheTape
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.ops.elementwise import cast
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.tape.pass_shape import PassShape
from service.estimator.values.dtypes import DType


def record_serving(model: Architecture, config: ServingPass) -> PeakCandidates:
    """Return the highest points of prefill and of one decode step.

    ``s`` is the prompt in prefill and the tokens in the cache in decode. Bytes that a pass adds to
    the cache are part of it; the caller counts those of before.
    """
    if not model.generates:
        return record_encoding(model, config)
    sections = [Section.PREFILL, Section.DECODE, *[Section.FIRST_DECODE] * config.drops_prompt]
    candidates: PeakCandidates = {}
    for section in sections:
        tape = Tape(section, Mode.INFERENCE)
        _run_section(model, config, Recording(tape, build_serving_context(model, config, section)))
        candidates |= tape.ledger.find_peak_candidates()
    return candidates


def log_serving(model: Architecture, config: ServingPass, section: Section) -> CachePass:
    """Return the allocations and releases of prefill or a decode step.

    They are in order. ``config`` has a dynamic cache, of which each layer's tensors are followed.
    ``s`` is that of ``record_serving``.
    """
    tape = CacheTape(section)
    tape.on_gpu = config.on_gpu
    _run_section(model, config, Recording(tape, build_serving_context(model, config, section)))
    return tape.log()


def _run_section(model: Architecture, config: ServingPass, ctx: Recording) -> None:
    walk_class = get_walk_class(model) if is_recorded(model) else ModelWalk
    tape, walk, generation = ctx.tape, walk_class(model, ctx), config.generation
    held_scores: list[Storage] = []
    if generation is not None:
        hold_sequences(ctx, generation, count_positions(model))
        held_scores = hold_scores(ctx, generation, model.vocab_size)
    hidden = walk.hidden_states(allocate_integers(tape, ctx.shape.tokens(1)))
    all_logits = config.full_logits and not ctx.shape.decoding
    logits = walk.record_logits(
        hidden,
        ctx.shape.tokens(model.vocab_size) if all_logits else sizes.per_sequence(model.vocab_size),
    )
    if model.finish_logits is not None and not is_recorded(model):
        logits = model.finish_logits(ctx, logits)
    if all_logits and config.dtype is not DType.FP32:
        tape.free(cast(tape, logits, DType.FP32, category=Category.LOGITS))
    if generation is None:
        tape.free(logits)
    else:
        tape.free(hidden)
        choose_tokens(ctx, generation, logits, model.vocab_size, held_scores)


def count_positions(model: Architecture) -> int:
    """Return the positions of a token that ``generate`` gives a model.

    It gives them where forward has a parameter for them (transformers 5.23 ``generation/utils.py``,
    ``accepts_position_ids``): in all but models of mixers alone. Qwen2-VL gets those of three axes
    beside the text's (``_prepare_position_ids_for_generation``).
    """
    if model.recurrent and not any(block.cache_elements_per_token for block, _ in model.blocks):
        return 0
    return 4 if model.tables_per_token else 1


def build_serving_context(
    model: Architecture, config: ServingPass, section: Section
) -> PassContext:
    """Return the settings that record prefill or a decode step."""
    decoding = section is not Section.PREFILL
    window = config.decode_window if decoding else config.prefill_window
    return PassContext(
        dtype=config.dtype,
        compute_dtype=config.dtype,
        attention=resolve_attention(model, config.attention),
        scheme=config.decode_scheme if decoding else config.prefill_scheme,
        shape=PassShape(
            decoding=decoding,
            static=config.prefill_static and not decoding,
            row_padding=0 if decoding else config.row_padding,
            own_positions=config.generation is not None and count_positions(model) > 0,
        ),
        cache=replace(config.cache, drops_prompt=section is Section.FIRST_DECODE),
        static_cache_length=config.cache.length if config.reads_full_cache or decoding else None,
        cudnn=config.cudnn,
        window_reached=window is not None,
        batched=config.batched,
        length=config.total_length if section is Section.DECODE else config.length,
        images=None if decoding else config.images,
        copies_experts=decoding
        and config.generation is not None
        and config.generation.num_beams == 1,
    )
