"""How long the decoder of a model with an encoder is, as a request says it or leaves it out."""

from service.estimator.architecture import Architecture
from service.estimator.encoder_decoder import EncoderDecoder, EncoderDecoderSpec
from service.estimator.errors import InvalidInputError, NotModelledError
from service.estimator.workload import TrainWorkload


def decoder_length(model: Architecture, workload: TrainWorkload) -> int | None:
    """Return the decoder's tokens; None is as many as ``sequence_length``, which stays open in a recording."""
    if not isinstance(model, EncoderDecoder):
        return None
    if workload.decoder_length is not None:
        return workload.decoder_length
    if model.encoder.length is None:
        return None
    return workload.sequence_length if workload.sequence_length != model.encoder.length else _positions(model)


def check_lengths(model: Architecture, workload: TrainWorkload) -> None:
    """Raise for words about an encoder or a decoder that the model has not, and for lengths that it cannot have."""
    if not isinstance(model, EncoderDecoder):
        if workload.decoder_length is not None:
            what = f"decoder_length of {model.family}, which is no encoder-decoder"
            raise NotModelledError(what, field="workload.decoder_length", modelled=["requests without decoder_length"])
        return
    _check_frames(model, workload)
    length = decoder_length(model, workload) or workload.sequence_length
    if 0 < _positions(model) < length:
        field = "decoder_length" if workload.decoder_length is not None else "sequence_length"
        message = f"{length} decoder tokens, but {model.family} has learned positions for {_positions(model)}"
        raise InvalidInputError(message, field=f"workload.{field}")


def lengths_assumed(model: Architecture, workload: TrainWorkload) -> tuple[str, ...]:
    """Return what an answer takes for granted about the lengths that a request leaves out."""
    if not isinstance(model, EncoderDecoder):
        return ()
    length, frames = decoder_length(model, workload) or workload.sequence_length, _frames(model)
    said = []
    if frames is not None and workload.audio_frames is None:
        said.append(f"audio_frames = {frames}, the one length that {model.family} takes")
    if workload.decoder_length is None:
        said.append(f"decoder_length = {length}: the request does not say how many tokens the decoder has")
    return tuple(said)


def _check_frames(model: EncoderDecoder, workload: TrainWorkload) -> None:
    """Raise for audio that the model does not take, and for a sequence that is neither the encoder's nor the decoder's."""
    frames, length = _frames(model), model.encoder.length
    if workload.audio_frames is not None and workload.audio_frames != frames:
        message = f"audio_frames is {workload.audio_frames}; {model.family} reads " + (f"{frames}" if frames else "no audio")
        raise InvalidInputError(message, field="workload.audio_frames")
    if length is None or workload.decoder_length is None:
        return
    if workload.sequence_length not in {length, workload.decoder_length}:
        message = (
            f"sequence_length is {workload.sequence_length}, but the encoder of {model.family} has {length} positions "
            f"({frames} audio_frames): say {length}, or the decoder's tokens in either word"
        )
        raise InvalidInputError(message, field="workload.sequence_length")


def _frames(model: EncoderDecoder) -> int | None:
    return None if model.encoder.length is None else model.encoder.length * model.encoder.frames_per_position


def _positions(model: EncoderDecoder) -> int:
    """Return how many tokens the decoder can have; 0 is any number."""
    spec = model.spec
    assert isinstance(spec, EncoderDecoderSpec)  # noqa: S101 - what families of two stacks build
    return 0 if spec.rotary else spec.max_position_embeddings
