"""Rules of lengths: audio, and a decoder behind an encoder."""

from service.estimator.memory.lengths import count_decoder_positions, count_frames
from service.estimator.rules.grammar.conditions import is_absent, is_false, is_true, satisfies
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import model, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.models import (
    count_decoder_tokens,
    describe_frames,
    fits_decoder,
    get_training,
    get_two_stacks,
    hears_frames,
    matches_encoder,
)

_ONE_STACK, _TWO_STACKS = is_false(model.has_encoder), is_true(model.has_encoder)


def _explain_length(case: Case) -> str:
    model, frames = get_two_stacks(case), count_frames(get_two_stacks(case))
    return (
        f"sequence_length is {get_training(case).sequence_length}, but the encoder of "
        f"{model.family} has {model.encoder.length} positions ({frames} audio_frames): say "
        f"{model.encoder.length}, or the decoder's tokens in either word"
    )


def _explain_positions(case: Case) -> str:
    positions = count_decoder_positions(get_two_stacks(case))
    has = f"{case.model.family} has learned positions for {positions}"
    return f"{count_decoder_tokens(case)} decoder tokens, but {has}: say {positions} or fewer"


def _get_length_field(case: Case) -> str:
    given = get_training(case).decoder_length is not None
    return workload.decoder_length.path if given else workload.sequence_length.path


TRAINING_LENGTHS = (
    Rule(
        when=_ONE_STACK,
        require=is_absent(workload.decoder_length),
        topic=Topic.FRAMES,
        refusal=unmodelled(
            "decoder_length of {model.family}, which is no encoder-decoder",
            "requests without decoder_length",
        ),
    ),
    Rule(
        when=_ONE_STACK,
        require=is_absent(workload.audio_frames),
        topic=Topic.FRAMES,
        refusal=invalid("audio_frames is {workload.audio_frames}; {model.family} reads no audio"),
        source="the model's own modules",
    ),
    Rule(
        when=_TWO_STACKS,
        require=satisfies(hears_frames, workload.audio_frames),
        topic=Topic.FRAMES,
        refusal=invalid(
            lambda case: (
                f"audio_frames is {get_training(case).audio_frames}; "
                f"{case.model.family} reads {describe_frames(case)}"
            )
        ),
        source="transformers 5.23, WhisperEncoder: one length of mel features",
    ),
    Rule(
        when=_TWO_STACKS,
        require=satisfies(matches_encoder, workload.sequence_length, workload.decoder_length),
        topic=Topic.FRAMES,
        refusal=invalid(_explain_length),
        source="transformers 5.23, WhisperEncoder: one length of mel features",
    ),
    Rule(
        when=_TWO_STACKS,
        require=satisfies(fits_decoder, workload.sequence_length, workload.decoder_length),
        topic=Topic.DECODER,
        refusal=invalid(_explain_positions, field=_get_length_field),
        source="the model's position table (max_position_embeddings)",
    ),
)
