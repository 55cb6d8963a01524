"""What one micro-batch consists of, for every kind of model that a probe runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from service.estimator.values.workload import TrainWorkload

Batch = dict[str, Any]
"""Arguments of a forward pass by name: tensors, and switches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large a batch is: sequences and their tokens, the decoder's tokens, and images with the tokens of each."""

    num_sequences: int
    num_tokens: int
    decoder_tokens: int
    num_images: int = 0
    image_tokens: int = 0


def training_batch(model: PreTrainedModel, workload: TrainWorkload, *, micro_batch_size: int, sequence_length: int) -> Batch:
    """Return the arguments of a forward pass with its loss, on the model's device and with the same values every time."""
    shape = Shape(
        num_sequences=micro_batch_size,
        num_tokens=sequence_length,
        decoder_tokens=_decoder_tokens(model.config, workload, sequence_length),
        num_images=(workload.num_images or (workload.image_tokens is not None)) * micro_batch_size,
        image_tokens=workload.image_tokens or 0,
    )
    drawer = _Drawer(model)
    batch = _BATCHES.get(model.config.model_type, _causal)(drawer, shape)
    if workload.padding_mask and "input_ids" in batch:
        batch["attention_mask"] = _padding(batch["input_ids"])
    return batch


def _decoder_tokens(config: PreTrainedConfig, workload: TrainWorkload, sequence_length: int) -> int:
    """Return the decoder's tokens; where only the encoder's audio was said, as many as the decoder has positions for."""
    if workload.decoder_length is not None:
        return workload.decoder_length
    if config.model_type == "whisper" and sequence_length == config.max_source_positions:
        return int(config.max_target_positions)
    return sequence_length


class _Drawer:
    """Draws tokens and pixels, the same every time."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.config = model.config
        self._device, self._dtype = model.device, model.dtype
        self._generator = torch.Generator().manual_seed(0)

    def tokens(self, *shape: int, below: int | None = None) -> torch.Tensor:
        """Return ids of the vocabulary, of which none stands for an image."""
        text = self.config.get_text_config()
        image = getattr(self.config, "image_token_id", None)
        bound = below or min(text.vocab_size, image if isinstance(image, int) else text.vocab_size)
        return torch.randint(0, bound, shape, generator=self._generator).to(self._device)

    def values(self, *shape: int) -> torch.Tensor:
        """Return numbers in the dtype of the weights."""
        return torch.randn(*shape, generator=self._generator).to(self._device, self._dtype)

    def text_with_images(self, shape: Shape) -> torch.Tensor:
        """Return token ids that begin with the places of the images."""
        ids = self.tokens(shape.num_sequences, shape.num_tokens)
        if shape.num_images:
            ids[:, : _image_places(shape)] = self.config.image_token_id
        return ids


def _image_places(shape: Shape) -> int:
    return shape.num_images // shape.num_sequences * shape.image_tokens


def _causal(drawer: _Drawer, shape: Shape) -> Batch:
    ids = drawer.tokens(shape.num_sequences, shape.num_tokens)
    return {"input_ids": ids, "labels": ids}


def _masked(drawer: _Drawer, shape: Shape) -> Batch:
    size = (shape.num_sequences, shape.num_tokens)
    return {"input_ids": drawer.tokens(*size), "labels": drawer.tokens(*size)}


def _translated(drawer: _Drawer, shape: Shape) -> Batch:
    ids = drawer.tokens(shape.num_sequences, shape.num_tokens)
    return {"input_ids": ids, "labels": drawer.tokens(shape.num_sequences, shape.decoder_tokens)}


def _heard(drawer: _Drawer, shape: Shape) -> Batch:
    """Return audio as Whisper takes it: two frames for every position of its encoder."""
    config = drawer.config
    features = drawer.values(shape.num_sequences, config.num_mel_bins, 2 * config.max_source_positions)
    return {"input_features": features, "labels": drawer.tokens(shape.num_sequences, shape.decoder_tokens)}


def _classified(drawer: _Drawer, shape: Shape) -> Batch:
    labels = drawer.tokens(shape.num_sequences, below=drawer.config.num_labels)
    return {"pixel_values": _pixels(drawer, drawer.config, shape.num_sequences), "labels": labels}


def _contrasted(drawer: _Drawer, shape: Shape) -> Batch:
    ids = drawer.tokens(shape.num_sequences, shape.num_tokens)
    pixels = _pixels(drawer, drawer.config.vision_config, shape.num_sequences)
    return {"input_ids": ids, "pixel_values": pixels, "return_loss": True}


def _seen(drawer: _Drawer, shape: Shape) -> Batch:
    ids = drawer.text_with_images(shape)
    if not shape.num_images:
        return {"input_ids": ids, "labels": ids}
    pixels = _pixels(drawer, drawer.config.vision_config, shape.num_images)
    return {"input_ids": ids, "labels": ids, "pixel_values": pixels}


def _seen_by_gemma(drawer: _Drawer, shape: Shape) -> Batch:
    """Say which tokens are an image's: Gemma's see each other in both directions."""
    batch = _seen(drawer, shape)
    if not shape.num_images:
        return batch
    kinds = torch.zeros_like(drawer.tokens(shape.num_sequences, shape.num_tokens))
    kinds[:, : _image_places(shape)] = 1
    return batch | {"token_type_ids": kinds}


def _seen_in_patches(drawer: _Drawer, shape: Shape) -> Batch:
    """Return images as Qwen takes them: a row for each patch, and how many there are in time, height and width."""
    ids = drawer.text_with_images(shape)
    if not shape.num_images:
        return {"input_ids": ids, "labels": ids}
    vision = drawer.config.vision_config
    merge: int = vision.spatial_merge_size
    width = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    rows, columns = _grid(shape.image_tokens)
    grid = torch.tensor([[1, rows * merge, columns * merge]] * shape.num_images, device=ids.device)
    kinds = (ids == drawer.config.image_token_id).to(torch.int32)
    patches = drawer.values(shape.num_images * shape.image_tokens * merge**2, width)
    return {"input_ids": ids, "labels": ids, "pixel_values": patches, "image_grid_thw": grid, "mm_token_type_ids": kinds}


def _grid(num_tokens: int) -> tuple[int, int]:
    """Return the sides of the rectangle nearest to a square that has so many places."""
    side = next(side for side in range(int(num_tokens**0.5), 0, -1) if num_tokens % side == 0)
    return side, num_tokens // side


def _pixels(drawer: _Drawer, vision: PreTrainedConfig, num_images: int) -> torch.Tensor:
    return drawer.values(num_images, vision.num_channels, vision.image_size, vision.image_size)


def _padding(ids: torch.Tensor) -> torch.Tensor:
    """Return a mask that hides the last token of every sequence."""
    mask = torch.ones_like(ids)
    mask[:, -1] = 0
    return mask


_BATCHES: Mapping[str, Callable[[_Drawer, Shape], Batch]] = {
    "bart": _translated,
    "bert": _masked,
    "camembert": _masked,
    "clip": _contrasted,
    "distilbert": _masked,
    "gemma3": _seen_by_gemma,
    "llava": _seen,
    "mbart": _translated,
    "modernbert": _masked,
    "mt5": _translated,
    "qwen2_5_vl": _seen_in_patches,
    "qwen2_vl": _seen_in_patches,
    "roberta": _masked,
    "t5": _translated,
    "vit": _classified,
    "whisper": _heard,
    "xlm-roberta": _masked,
}
"""How a model_type is fed; a causal language model where nothing is said."""
