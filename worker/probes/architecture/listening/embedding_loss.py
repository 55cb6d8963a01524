"""Losses of classes of text that return hidden states, and no loss."""

from functools import wraps
from inspect import signature
from typing import Any

import torch
from transformers import PreTrainedModel

from worker.probes.models.task_batches import compare_embeddings


def returns_embeddings(model: PreTrainedModel) -> bool:
    """Return whether a class reads tokens and returns hidden states alone."""
    arguments = signature(model.forward).parameters
    return (
        "input_ids" in arguments
        and "labels" not in arguments
        and not model.config.is_encoder_decoder
    )


def add_embedding_loss(model: PreTrainedModel) -> None:
    """Let a class without a loss compare embeddings.

    Labels are an embedding for each sequence, compared with the mean of its positions, as in
    training of head ``none``.
    """
    if not returns_embeddings(model):
        return
    forward = model.forward

    @wraps(forward)
    def compare(*args: Any, labels: torch.Tensor | None = None, **named: Any) -> Any:  # noqa: ANN401 - the class's own
        outputs = forward(*args, **named)
        hidden = getattr(outputs, "last_hidden_state", None)
        if labels is not None and hidden is not None:
            outputs["loss"] = compare_embeddings(hidden, named, labels)
        return outputs

    vars(model)["forward"] = compare
