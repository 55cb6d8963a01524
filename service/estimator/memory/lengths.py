"""Sequence lengths of encoder-decoder models, and masks of packed ones.

A request states lengths or leaves them out.
"""

from dataclasses import dataclass

from service.estimator.memory.adapter_bases import runs_own_layers
from service.estimator.model.architecture import Architecture
from service.estimator.model.trees.encoder_decoder import EncoderDecoder, EncoderDecoderSpec
from service.estimator.values.batches import SequencePacking
from service.estimator.values.workload import Attention, ServeWorkload, TrainWorkload


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
        else count_decoder_positions(model)
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
        return (Stack(length=workload.rows[1], layers=model.num_hidden_layers),)
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


def list_length_assumptions(model: Architecture, workload: TrainWorkload) -> tuple[str, ...]:
    """Return the assumptions about lengths that a request leaves out."""
    if not isinstance(model, EncoderDecoder):
        return ()
    length, frames = (
        resolve_decoder_length(model, workload) or workload.sequence_length,
        count_frames(model),
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


def count_frames(model: EncoderDecoder) -> int | None:
    """Return the audio frames that a model takes.

    None where it hears none.
    """
    return (
        None
        if model.encoder.length is None
        else model.encoder.length * model.encoder.frames_per_position
    )


def count_decoder_positions(model: EncoderDecoder) -> int:
    """Return the most tokens of the decoder; 0 is any number."""
    spec = model.spec
    assert isinstance(spec, EncoderDecoderSpec)  # noqa: S101 - what families of two stacks build
    return 0 if spec.rotary else spec.max_position_embeddings


_UNPOSITIONED = frozenset({"opt"})
"""Families whose code makes its mask without a look at the positions that packing restarts
(transformers 5.23 ``models/opt/modeling_opt.py``, ``create_causal_mask``).
"""


def has_packed_mask(model: Architecture, workload: TrainWorkload) -> bool:
    """Return whether attention gets a mask of a row's packed sequences.

    Unsloth's layers get their lengths (``utils/packing.py``).
    """
    is_told = runs_own_layers(model, workload)
    return model.family not in _UNPOSITIONED and masks_packed(workload) and not is_told


def masks_packed(workload: TrainWorkload) -> bool:
    """Return whether a mask keeps a row's sequences apart.

    Flash attention takes their lengths, others a mask of the row's tokens (transformers 5.23
    ``masking_utils.py``, ``find_packed_sequence_indices``). A lone sequence without padding needs
    none, while blocks are filled with several.
    """
    is_lone = workload.packing is SequencePacking.PADDING_FREE and workload.num_sequences == 1
    is_packed = workload.packing is not SequencePacking.NONE and not is_lone
    return is_packed and workload.attention is not Attention.FLASH
