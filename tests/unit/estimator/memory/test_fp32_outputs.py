"""What a model returns, cast to fp32 by accelerate once autocast is left."""

from dataclasses import replace

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import TrainWorkload
from tests.builders import a_model
from tests.tiny_models import tiny_config

DEVICE = Device(name="card", capacity_bytes=2**40, usable_bytes=2**40)
TOKENS = 2 * 64
TRAIN = TrainWorkload(sequence_length=64, micro_batch_size=2, precision=POLICIES["amp_bf16"])
PLAIN = replace(TRAIN, fp32_outputs=False)


def loss_bytes(model: Architecture, workload: TrainWorkload) -> int:
    """Return the bytes of the loss."""
    answer = estimate(model, workload, layout=Layout(), device=DEVICE)
    return next(instant.allocated_bytes for instant in answer.instants if instant.name == "loss")


def test_logits_of_an_encoder_are_cast_while_their_softmax_is_there() -> None:
    """16-bit logits and log-softmax, its fp32 copy and that of the logits are 12 bytes each: two
    more than the loss's backward holds.
    """
    model = architecture_from_config(tiny_config("bert"))

    more = loss_bytes(model, TRAIN) - loss_bytes(model, PLAIN)

    # the five integers of a position that were counted in backward are gone before the cast
    assert more == pytest.approx(2 * TOKENS * model.vocab_size, abs=64 * TOKENS)


def test_logits_of_a_decoder_are_cast_below_its_peak() -> None:
    """Backward of a loss in fp32 holds 12 bytes of a logit, the cast only ten."""
    assert loss_bytes(a_model(), TRAIN) == loss_bytes(a_model(), PLAIN)


def test_a_loop_that_keeps_its_outputs_keeps_them_in_fp32() -> None:
    """What the loop holds through backward is the copy, not the 16-bit logits."""
    kept, plain = (replace(workload, keeps_logits=True) for workload in (TRAIN, PLAIN))
    model = a_model()

    more = loss_bytes(model, kept) - loss_bytes(model, plain)

    assert more == 2 * TOKENS * model.vocab_size


def test_without_autocast_nothing_is_cast() -> None:
    """Accelerate wraps forward under mixed precision alone, and the answer says so."""
    workload = replace(PLAIN, precision=POLICIES["bf16"])

    answer = estimate(a_model(), workload, layout=Layout(), device=DEVICE)

    assert any("fp32_outputs false has no effect" in line for line in answer.warnings)
    assert loss_bytes(a_model(), workload) == loss_bytes(
        a_model(), replace(workload, fp32_outputs=True)
    )
