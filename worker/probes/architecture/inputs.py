"""Inputs of a training step for models of text."""

import torch
from transformers import PreTrainedModel


def make_batch(model: PreTrainedModel, batch: int, length: int) -> dict[str, torch.Tensor]:
    """Return token ids that are their own labels."""
    ids = torch.zeros((batch, length), dtype=torch.long, device=model.device)
    return {"input_ids": ids, "labels": ids}
