"""Older releases of transformers copied the logits to shift them."""

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.library_versions import (
    has_fp32_logits,
    has_logit_copy,
    parse_transformers_release,
)
from service.estimator.values.device import Device
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Attention, Checkpointing, Lora, Method, TrainWorkload
from tests.builders import a_model

DEVICE = Device(name="card", capacity_bytes=2**40, usable_bytes=2**40)
VOCABULARY, TOKENS = 32_000, 512


def loss_bytes(version: str | None, **words: object) -> int:
    """Return the bytes of the loss of adapters on a small model with a large vocabulary."""
    workload = TrainWorkload(
        sequence_length=TOKENS,
        precision=POLICIES["bf16"],
        method=Method.LORA,
        lora=Lora(rank=1, targets=("q_proj",)),
        attention=Attention.FLASH,
        activation_checkpointing=Checkpointing.FULL,
        framework_version=version,
        **words,  # type: ignore[arg-type]  # words of TrainWorkload
    )
    answer = estimate(a_model(vocab_size=VOCABULARY), workload, layout=Layout(), device=DEVICE)
    return next(instant.allocated_bytes for instant in answer.instants if instant.name == "loss")


def test_releases_before_4_49_hold_fourteen_bytes_per_logit() -> None:
    """Two of the logits, four of their fp32 copy, four of the shifted one and four of its
    log-softmax: at most 12 since then.

    A Mistral-7B with adapters of rank 16 on four sequences of 4096 tokens read 26,704,571,904 bytes
    under 4.48.1 on an A100, which is what this makes of it to 0.01 %.
    """
    logits = VOCABULARY * TOKENS

    old, new = loss_bytes("4.48.1"), loss_bytes("4.49.0")

    assert old - new == pytest.approx(2 * logits, rel=0.01)
    assert new == loss_bytes(None)


def test_releases_before_4_46_return_fp32_logits() -> None:
    """The model drops its 16-bit logits; a loop that keeps the outputs holds four bytes instead of
    two.
    """
    logits = VOCABULARY * TOKENS

    assert loss_bytes("4.48.1") - loss_bytes("4.45.2") == pytest.approx(2 * logits, rel=0.01)


@pytest.mark.parametrize(
    ("version", "copies", "fp32"),
    [
        (None, False, False),
        ("5.23", False, False),
        ("4.49.0", False, False),
        ("4.48.1", True, False),
        ("4.46.0", True, False),
        ("4.45.2", True, True),
        ("4.38", True, True),
    ],
)
def test_versions_are_compared_as_numbers(version: str | None, copies: bool, fp32: bool) -> None:  # noqa: FBT001 - parameters of the test
    """Nothing said is the newest."""
    release = parse_transformers_release(version)

    assert (has_logit_copy(release), has_fp32_logits(release)) == (copies, fp32)


def test_a_version_must_be_a_release() -> None:
    """A word is refused with an example."""
    with pytest.raises(InvalidInputError, match="such as"):
        loss_bytes("latest")
