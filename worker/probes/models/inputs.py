"""Inputs of one micro-batch, for every kind of model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from service.estimator.values.heads import Head
from service.estimator.values.workload import TrainWorkload
from worker.probes.models.task_batches import make_task_labels

Batch = dict[str, Any]
"""Arguments of a forward pass by name: tensors, and switches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Size of a batch: sequences, tokens and images.

    ``decoder_tokens`` are the decoder's, ``image_tokens`` those of each image.
    """

    num_sequences: int
    num_tokens: int
    decoder_tokens: int
    num_images: int = 0
    image_tokens: int = 0


def make_training_batch(
    model: PreTrainedModel,
    workload: TrainWorkload,
    *,
    micro_batch_size: int,
    sequence_length: int,
    head: Head = Head.DEFAULT,
) -> Batch:
    """Make the arguments of a forward pass with its loss.

    They are on the model's device and have the same values every time. The labels of a model
    without a head are none of its forward's arguments.
    """
    shape = Shape(
        num_sequences=micro_batch_size,
        num_tokens=sequence_length,
        decoder_tokens=_count_decoder_tokens(model.config, workload, sequence_length),
        num_images=(workload.num_images or (workload.image_tokens is not None)) * micro_batch_size,
        image_tokens=workload.image_tokens or 0,
    )
    generator = _InputGenerator(model)
    if head is Head.DEFAULT:
        batch = _BATCH_MAKERS.get(model.config.model_type, _make_causal_batch)(generator, shape)
    else:
        batch = generator.task_batch(model, head, shape)
    if workload.padding_mask and "input_ids" in batch:
        batch["attention_mask"] = _make_padding_mask(batch["input_ids"])
    return batch


def _count_decoder_tokens(
    config: PreTrainedConfig, workload: TrainWorkload, sequence_length: int
) -> int:
    """Count the decoder's tokens.

    Where only the encoder's audio was given, as many as the decoder has positions for.
    """
    if workload.decoder_length is not None:
        return workload.decoder_length
    if config.model_type == "whisper" and sequence_length == config.max_source_positions:
        return int(config.max_target_positions)
    return sequence_length


class _InputGenerator:
    """Generator of random tokens and pixels, the same every time."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.config = model.config
        self._device, self._dtype = model.device, model.dtype
        self._generator = torch.Generator().manual_seed(0)

    def tokens(self, *shape: int, below: int | None = None) -> torch.Tensor:
        """Return random token ids, none of which is an image token."""
        text = self.config.get_text_config()
        image = getattr(self.config, "image_token_id", None)
        bound = below or min(text.vocab_size, image if isinstance(image, int) else text.vocab_size)
        return torch.randint(0, bound, shape, generator=self._generator).to(self._device)

    def values(self, *shape: int) -> torch.Tensor:
        """Return random numbers in the dtype of the weights."""
        return torch.randn(*shape, generator=self._generator).to(self._device, self._dtype)

    def task_batch(self, model: PreTrainedModel, head: Head, shape: Shape) -> Batch:
        """Return token ids with the labels of another head."""
        ids = self.tokens(shape.num_sequences, shape.num_tokens)
        return {"input_ids": ids, **make_task_labels(model, head, ids, self._generator)}

    def text_with_images(self, shape: Shape) -> torch.Tensor:
        """Return token ids that begin with image tokens."""
        ids = self.tokens(shape.num_sequences, shape.num_tokens)
        if shape.num_images:
            ids[:, : _count_image_tokens(shape)] = self.config.image_token_id
        return ids


def _count_image_tokens(shape: Shape) -> int:
    return shape.num_images // shape.num_sequences * shape.image_tokens


def _make_causal_batch(generator: _InputGenerator, shape: Shape) -> Batch:
    ids = generator.tokens(shape.num_sequences, shape.num_tokens)
    return {"input_ids": ids, "labels": ids}


def _make_masked_batch(generator: _InputGenerator, shape: Shape) -> Batch:
    size = (shape.num_sequences, shape.num_tokens)
    return {"input_ids": generator.tokens(*size), "labels": generator.tokens(*size)}


def _make_seq2seq_batch(generator: _InputGenerator, shape: Shape) -> Batch:
    ids = generator.tokens(shape.num_sequences, shape.num_tokens)
    return {"input_ids": ids, "labels": generator.tokens(shape.num_sequences, shape.decoder_tokens)}


def _make_audio_batch(generator: _InputGenerator, shape: Shape) -> Batch:
    """Make audio as Whisper takes it.

    There are two frames for every position of its encoder.
    """
    config = generator.config
    features = generator.values(
        shape.num_sequences, config.num_mel_bins, 2 * config.max_source_positions
    )
    return {
        "input_features": features,
        "labels": generator.tokens(shape.num_sequences, shape.decoder_tokens),
    }


def _make_classification_batch(generator: _InputGenerator, shape: Shape) -> Batch:
    labels = generator.tokens(shape.num_sequences, below=generator.config.num_labels)
    return {
        "pixel_values": _draw_pixels(generator, generator.config, shape.num_sequences),
        "labels": labels,
    }


def _make_contrastive_batch(generator: _InputGenerator, shape: Shape) -> Batch:
    ids = generator.tokens(shape.num_sequences, shape.num_tokens)
    pixels = _draw_pixels(generator, generator.config.vision_config, shape.num_sequences)
    return {"input_ids": ids, "pixel_values": pixels, "return_loss": True}


def _make_image_text_batch(generator: _InputGenerator, shape: Shape) -> Batch:
    ids = generator.text_with_images(shape)
    if not shape.num_images:
        return {"input_ids": ids, "labels": ids}
    pixels = _draw_pixels(generator, generator.config.vision_config, shape.num_images)
    return {"input_ids": ids, "labels": ids, "pixel_values": pixels}


def _make_gemma_batch(generator: _InputGenerator, shape: Shape) -> Batch:
    """Mark the tokens of images.

    Gemma's attend to each other in both directions.
    """
    batch = _make_image_text_batch(generator, shape)
    if not shape.num_images:
        return batch
    kinds = torch.zeros_like(generator.tokens(shape.num_sequences, shape.num_tokens))
    kinds[:, : _count_image_tokens(shape)] = 1
    return batch | {"token_type_ids": kinds}


def _make_qwen_batch(generator: _InputGenerator, shape: Shape) -> Batch:
    """Make images as Qwen takes them.

    There is a row for each patch, and a grid with their numbers in time, height and width.
    """
    ids = generator.text_with_images(shape)
    if not shape.num_images:
        return {"input_ids": ids, "labels": ids}
    vision = generator.config.vision_config
    merge: int = vision.spatial_merge_size
    width = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    rows, columns = _compute_grid(shape.image_tokens)
    grid = torch.tensor([[1, rows * merge, columns * merge]] * shape.num_images, device=ids.device)
    kinds = (ids == generator.config.image_token_id).to(torch.int32)
    patches = generator.values(shape.num_images * shape.image_tokens * merge**2, width)
    return {
        "input_ids": ids,
        "labels": ids,
        "pixel_values": patches,
        "image_grid_thw": grid,
        "mm_token_type_ids": kinds,
    }


def _compute_grid(num_tokens: int) -> tuple[int, int]:
    """Return the sides of the most square rectangle of ``num_tokens`` places."""
    side = next(side for side in range(int(num_tokens**0.5), 0, -1) if num_tokens % side == 0)
    return side, num_tokens // side


def _draw_pixels(
    generator: _InputGenerator, vision: PreTrainedConfig, num_images: int
) -> torch.Tensor:
    return generator.values(num_images, vision.num_channels, vision.image_size, vision.image_size)


def _make_padding_mask(ids: torch.Tensor) -> torch.Tensor:
    """Make a mask that hides the last token of every sequence."""
    mask = torch.ones_like(ids)
    mask[:, -1] = 0
    return mask


_BATCH_MAKERS: Mapping[str, Callable[[_InputGenerator, Shape], Batch]] = {
    "bart": _make_seq2seq_batch,
    "bert": _make_masked_batch,
    "camembert": _make_masked_batch,
    "electra": _make_masked_batch,
    "clip": _make_contrastive_batch,
    "distilbert": _make_masked_batch,
    "gemma3": _make_gemma_batch,
    "llava": _make_image_text_batch,
    "mbart": _make_seq2seq_batch,
    "modernbert": _make_masked_batch,
    "mt5": _make_seq2seq_batch,
    "qwen2_5_vl": _make_qwen_batch,
    "qwen2_vl": _make_qwen_batch,
    "roberta": _make_masked_batch,
    "t5": _make_seq2seq_batch,
    "vit": _make_classification_batch,
    "whisper": _make_audio_batch,
    "xlm-roberta": _make_masked_batch,
}
"""Makers of batches by model_type; a causal language model is the default."""
