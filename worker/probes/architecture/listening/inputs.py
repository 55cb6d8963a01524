"""Inputs of a training step for models of text."""

import torch
from transformers import PreTrainedModel


def make_batch(model: PreTrainedModel, batch: int, length: int) -> dict[str, torch.Tensor]:
    """Return token ids with labels: themselves, unless other tokens are predicted.

    A masked model is given ids in which some are hidden, a decoder beside an encoder a text of its
    own.
    """
    ids = torch.zeros((batch, length), dtype=torch.long, device=model.device)
    is_other = model.config.is_encoder_decoder or model.loss_type == "ForMaskedLM"
    return {"input_ids": ids, "labels": torch.zeros_like(ids) if is_other else ids}
