"""Inputs of a training step, with labels of its loss."""

import inspect
import re

import torch
from transformers import PreTrainedModel

from service.estimator.model.recorded.inputs import RecordedInput
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.architecture.listening.embedding_loss import returns_embeddings
from worker.probes.architecture.listening.reading import find_reading

_OF_ONE_CLASS = re.compile(r"For(Image|Video|Audio|Sequence)Classification(WithTeacher)?$")
"""Models whose label is a class of each item."""
_OF_PIXELS = {"ForSemanticSegmentation": torch.long, "ForDepthEstimation": torch.float32}
"""Models whose labels are one for each pixel, by the end of their names."""

_FRAMES_PER_POSITION = 2
"""Frames of a spectrogram for a position of an encoder, whose second convolution has a stride."""


def make_batch(model: PreTrainedModel, batch: int, length: int) -> dict[str, torch.Tensor]:
    """Return token ids, pixels or audio, with labels.

    Labels of text are the ids themselves, unless other tokens are predicted. A masked model is
    given ids in which some are hidden, a decoder beside an encoder a text of its own, and a class
    that returns hidden states alone an embedding for each sequence.
    """
    reading = find_reading(model)
    if reading is not None:
        items = make_items(model, reading, batch, length)
        return {reading.name: items} | _make_labels(model, reading, batch)
    ids = torch.zeros((batch, length), dtype=torch.long, device=model.device)
    if _reads_audio_beside_text(model):
        return {"labels": ids, "input_features": _make_spectrogram(model, batch)}
    if returns_embeddings(model):
        width = model.config.get_text_config().hidden_size
        labels = torch.zeros((batch, width), dtype=model.dtype, device=model.device)
        return {"input_ids": ids, "labels": labels}
    is_other = model.config.is_encoder_decoder or model.loss_type == "ForMaskedLM"
    return {"input_ids": ids, "labels": torch.zeros_like(ids) if is_other else ids}


def _reads_audio_beside_text(model: PreTrainedModel) -> bool:
    """Return whether an encoder reads audio, of which a decoder writes text."""
    arguments = inspect.signature(model.forward).parameters
    return "input_ids" not in arguments and "input_features" in arguments


def _make_spectrogram(model: PreTrainedModel, batch: int) -> torch.Tensor:
    """Return audio of the one length that an encoder takes.

    Whisper's are 30 s. Raises Refusal where the config does not say how long that is.
    """
    positions, bins = (
        getattr(model.config, name, None) for name in ("max_source_positions", "num_mel_bins")
    )
    if not isinstance(positions, int) or not isinstance(bins, int):
        message = f"the config of {model.config.model_type} does not say how long its audio is"
        raise Refusal(FailureKind.UNSUPPORTED, message)
    shape = (batch, bins, positions * _FRAMES_PER_POSITION)
    return torch.zeros(shape, dtype=model.dtype, device=model.device)


def make_inputs(model: PreTrainedModel, batch: int, length: int) -> dict[str, torch.Tensor]:
    """Return tokens, pixels or audio without labels."""
    reading = find_reading(model)
    if reading is None:
        ids = torch.zeros((batch, length), dtype=torch.long, device=model.device)
        return {"input_ids": ids}
    return {reading.name: make_items(model, reading, batch, length)}


def make_items(
    model: PreTrainedModel, reading: RecordedInput, batch: int, length: int
) -> torch.Tensor:
    """Return pixels or audio in the dtype of the weights."""
    shape = (batch, *reading.get_shape(length))
    return torch.zeros(shape, dtype=model.dtype, device=model.device)


def _make_labels(
    model: PreTrainedModel, reading: RecordedInput, batch: int
) -> dict[str, torch.Tensor]:
    """Return the labels of a batch, none where the loss takes none."""
    if "labels" not in inspect.signature(model.forward).parameters:
        return {}
    name = type(model).__name__
    if _OF_ONE_CLASS.search(name):
        return {"labels": torch.zeros(batch, dtype=torch.long, device=model.device)}
    dtype = next((dtype for end, dtype in _OF_PIXELS.items() if name.endswith(end)), None)
    if dtype is None:
        return {}
    shape = (batch, reading.height, reading.width)
    return {"labels": torch.zeros(shape, dtype=dtype, device=model.device)}
