"""Sequence lengths of encoder-decoder models.

A request states them or leaves them out.
"""

from dataclasses import dataclass

from service.estimator.model.architecture import Architecture
from service.estimator.model.trees.encoder_decoder import EncoderDecoder, EncoderDecoderSpec
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.workload import Method, ServeWorkload, TrainWorkload


def resolve_decoder_length(model: Architecture, workload: TrainWorkload) -> int | None:
    """Return the decoder's tokens.

    None is as many as ``sequence_length``, which stays open in a recording.
    """
    if not isinstance(model, EncoderDecoder):
        return None
    if workload.decoder_length is not None:
        return workload.decoder_length
    if model.encoder.length is None:
        return None
    return (
        workload.sequence_length
        if workload.sequence_length != model.encoder.length
        else _count_decoder_positions(model)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One stack of a model in a request.

    It has the tokens of a sequence in it, and its layers.
    """

    length: int
    layers: int


def list_stacks(model: Architecture, workload: TrainWorkload) -> tuple[Stack, ...]:
    """Return the stacks that a sequence goes through, in order.

    They are an encoder where there is one, and the decoder.
    """
    if not isinstance(model, EncoderDecoder):
        return (Stack(length=workload.sequence_length, layers=model.num_hidden_layers),)
    spec = model.spec
    assert isinstance(spec, EncoderDecoderSpec)  # noqa: S101 - what families of two stacks build
    source = Stack(
        length=model.encoder.length or workload.sequence_length, layers=spec.num_encoder_layers
    )
    length = resolve_decoder_length(model, workload) or workload.sequence_length
    return (source, Stack(length=length, layers=spec.num_hidden_layers))


def count_source_positions(model: Architecture, workload: ServeWorkload) -> int:
    """Return the encoder's positions of each sequence.

    They are its own number, or one for every token of the prompt.
    """
    length = model.encoder.length if isinstance(model, EncoderDecoder) else None
    return workload.prompt_tokens if length is None else length


def count_start_tokens(model: Architecture, workload: ServeWorkload) -> int:
    """Return the tokens that a served decoder begins with.

    It is one, or those of the prompt where the encoder reads audio.
    """
    has_audio = isinstance(model, EncoderDecoder) and model.encoder.length is not None
    return (
        workload.prompt_tokens
        if has_audio and workload.prompt_tokens != count_source_positions(model, workload)
        else 1
    )


def check_lengths(model: Architecture, workload: TrainWorkload) -> None:
    """Raise for lengths that the model cannot have.

    Options about an encoder or a decoder that it lacks are refused too.
    """
    if not isinstance(model, EncoderDecoder):
        if workload.decoder_length is not None:
            what = f"decoder_length of {model.family}, which is no encoder-decoder"
            raise NotModelledError(
                what, field="workload.decoder_length", modelled=["requests without decoder_length"]
            )
        if workload.audio_frames is not None:
            message = f"audio_frames is {workload.audio_frames}; {model.family} reads no audio"
            raise InvalidInputError(message, field="workload.audio_frames")
        return
    _check_frames(model, workload)
    _check_options(model, workload)
    check_half(model, workload.precision.param_dtype, "workload.precision")
    check_half(
        model,
        DType.BF16 if workload.precision.autocast else workload.precision.compute_dtype,
        "workload.precision",
    )
    if model.clamps_half and workload.precision.param_dtype is DType.FP16:
        what = f"fp16 weights of {model.family}, which clamps its hidden states then"
        raise NotModelledError(
            what, field="workload.precision", modelled=["bf16", "fp32", "amp_fp16"]
        )
    length = resolve_decoder_length(model, workload) or workload.sequence_length
    if 0 < _count_decoder_positions(model) < length:
        field = "decoder_length" if workload.decoder_length is not None else "sequence_length"
        message = (
            f"{length} decoder tokens, but {model.family} has learned positions for "
            f"{_count_decoder_positions(model)}"
        )
        raise InvalidInputError(message, field=f"workload.{field}")


def _check_options(model: EncoderDecoder, workload: TrainWorkload) -> None:
    """Raise for options modelled in models of one stack alone."""
    if workload.selective_every is not None:
        what = f"every n-th layer of {model.family}, which has two stacks of them"
        raise NotModelledError(
            what, field="workload.activation_checkpointing", modelled=["none", "full"]
        )
    if workload.method is Method.QLORA and model.keeps_fp32:
        what = f"quantised {model.family}, whose {model.keeps_fp32} transformers keeps in fp32"
        raise NotModelledError(what, field="workload.method", modelled=["full", "lora"])


def check_half(model: EncoderDecoder, dtype: DType, field: str) -> None:
    """Raise for fp16 weights of a model with a part in fp32.

    transformers keeps that part in fp32 then (``_keep_in_fp32_modules``).
    """
    if dtype is DType.FP16 and model.keeps_fp32:
        what = (
            f"fp16 weights of {model.family}, whose {model.keeps_fp32} transformers keeps in fp32"
        )
        raise NotModelledError(what, field=field, modelled=["bf16", "fp32"])


def list_length_assumptions(model: Architecture, workload: TrainWorkload) -> tuple[str, ...]:
    """Return the assumptions about lengths that a request leaves out."""
    if not isinstance(model, EncoderDecoder):
        return ()
    length, frames = (
        resolve_decoder_length(model, workload) or workload.sequence_length,
        _count_frames(model),
    )
    assumptions = []
    if frames is not None and workload.audio_frames is None:
        assumptions.append(f"audio_frames = {frames}, the one length that {model.family} takes")
    if model.ignores_padding and workload.padding_mask:
        assumptions.append(f"padding_mask has no effect: {model.family} looks at every audio frame")
    if workload.decoder_length is None:
        assumptions.append(
            f"decoder_length = {length}: the request does not say how many tokens the decoder has"
        )
    return tuple(assumptions)


def _check_frames(model: EncoderDecoder, workload: TrainWorkload) -> None:
    """Raise for audio that the model does not take.

    A sequence that is neither the encoder's nor the decoder's is refused too.
    """
    frames, length = _count_frames(model), model.encoder.length
    if workload.audio_frames is not None and workload.audio_frames != frames:
        message = f"audio_frames is {workload.audio_frames}; {model.family} reads " + (
            f"{frames}" if frames else "no audio"
        )
        raise InvalidInputError(message, field="workload.audio_frames")
    if length is None or workload.decoder_length is None:
        return
    if workload.sequence_length not in {length, workload.decoder_length}:
        message = (
            f"sequence_length is {workload.sequence_length}, but the encoder of {model.family} has "
            f"{length} positions ({frames} audio_frames): say {length}, or the decoder's tokens in "
            "either word"
        )
        raise InvalidInputError(message, field="workload.sequence_length")


def _count_frames(model: EncoderDecoder) -> int | None:
    return (
        None
        if model.encoder.length is None
        else model.encoder.length * model.encoder.frames_per_position
    )


def _count_decoder_positions(model: EncoderDecoder) -> int:
    """Return the most tokens of the decoder; 0 is any number."""
    spec = model.spec
    assert isinstance(spec, EncoderDecoderSpec)  # noqa: S101 - what families of two stacks build
    return 0 if spec.rotary else spec.max_position_embeddings
