"""Labels and losses of models with another head than a language model's."""

from collections.abc import Mapping

import torch
from torch.nn.functional import mse_loss
from transformers import PreTrainedModel

from service.estimator.model.heads.config import get_problem
from service.estimator.values.heads import Head, Problem

Labels = dict[str, torch.Tensor]


def make_task_labels(
    model: PreTrainedModel, head: Head, ids: torch.Tensor, generator: torch.Generator
) -> Labels:
    """Make the labels of a batch by the forward's names.

    A model without a head is compared with an embedding for each sequence.
    """
    num_sequences, config = len(ids), model.config

    def integers(*shape: int, below: int) -> torch.Tensor:
        return torch.randint(0, below, shape, generator=generator).to(model.device)

    def values(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).to(model.device, model.dtype)

    if head is Head.NONE:
        return {"labels": values(num_sequences, config.get_text_config().hidden_size)}
    if head is Head.QUESTION_ANSWERING:
        length = ids.shape[1]
        return {
            name: integers(num_sequences, below=length)
            for name in ("start_positions", "end_positions")
        }
    num_labels = int(config.num_labels or 0)
    if head is Head.TOKEN_CLASSIFICATION:
        return {"labels": integers(*ids.shape, below=num_labels)}
    if get_problem(config.problem_type or "", num_labels) is Problem.SINGLE_LABEL:
        return {"labels": integers(num_sequences, below=num_labels)}
    shape = (num_sequences,) if num_labels == 1 else (num_sequences, num_labels)
    return {"labels": values(*shape)}


def compare_embeddings(
    hidden: torch.Tensor, batch: Mapping[str, torch.Tensor], labels: torch.Tensor
) -> torch.Tensor:
    """Return the loss of a model without a head.

    sentence-transformers 6.2: ``modules/pooling.py``, ``losses/mse.py``.
    """
    return mse_loss(_pool_mean(hidden, batch.get("attention_mask")), labels)


def _pool_mean(hidden: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
    """Return the mean over tokens that are no padding, in fp32."""
    if attention_mask is None:
        attention_mask = torch.ones(hidden.shape[:-1], device=hidden.device, dtype=torch.int64)
    mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
    total = (hidden * mask).sum(dim=1, dtype=torch.float32)
    count = torch.clamp(mask.sum(dim=1, dtype=torch.float32), min=1e-9)
    return (total / count).to(hidden.dtype)
