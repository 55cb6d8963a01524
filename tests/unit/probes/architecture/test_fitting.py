"""Sizes from few passes, and what a plain pass counts and what it does not."""

from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from service.estimator.tape.programs.stepped_sizes import SteppedSize
from worker.probes.architecture.check import exclude_weights
from worker.probes.architecture.describe import name_embeddings
from worker.probes.architecture.listening.listen import Extent
from worker.probes.architecture.polynomials import fit_size
from worker.probes.models.model_class import build_any_model, build_config
from worker.probes.trace.recorder import record_storages

FIVE = tuple(
    Extent(batch=batch, length=length)
    for batch, length in ((2, 65), (3, 129), (5, 257), (2, 193), (3, 101))
)
EIGHT = (
    *FIVE,
    Extent(batch=5, length=301),
    Extent(batch=2, length=163),
    Extent(batch=3, length=399),
)
_SIZES = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 50}


def test_five_extents_prove_a_size_of_two_terms() -> None:
    """Labels that are shifted have a place more than their tokens."""
    counts = [8 * extent.batch * (extent.length + 1) for extent in FIVE]

    assert fit_size(counts, FIVE) == (0, 8, 0, 8, 0, 0)


def test_padded_rows_end_with_their_last_element() -> None:
    """A mask of six heads whose rows have multiples of sixteen: the last one is not padded."""
    rows = [(e, -(-e.length // 16) * 16) for e in EIGHT]
    counts = [4 * (6 * e.batch * e.length * padded - padded + e.length) for e, padded in rows]

    assert fit_size(counts, EIGHT) == SteppedSize(
        plain=(0, 0, 4, 0, 0, 0), tokens=16, begun=True, steps=(-64, 0, 0, 384, 0, 0)
    )


def test_a_weight_that_is_squeezed_is_no_allocation() -> None:
    """Qwen3.5's convolution: what a plain pass proves is beside the weights."""
    with FakeTensorMode():
        model = nn.Conv1d(8, 8, 4, groups=8)
        with record_storages() as recorder:
            kept = (model.weight.squeeze(1), model.weight * 2)
        before = max(recorder.ledger.live())
        exclude_weights(recorder, model)

    assert len(kept) == 2
    assert (before, max(recorder.ledger.live())) == (2 * 128, 128)


def test_both_stacks_of_an_encoder_decoder_embed_tokens() -> None:
    """Each has a module of its own with the one table."""
    config: dict[str, Any] = {"model_type": "pegasus", **_SIZES}
    with torch.device("meta"):
        model = build_any_model(config, build_config(config), dtype=torch.float32, attention="sdpa")

    stacks = {"model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens"}
    assert name_embeddings(model) == stacks
