"""Relative times of layouts follow from arithmetic and communication alone."""

from dataclasses import replace

import pytest

from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import Checkpointing
from service.planner.fit.evaluator import make_evaluator
from service.planner.fit.time_lower_bound import flops_per_parameter_and_token, seconds_per_token
from tests.unit.planner.builders import ADAPTERS, LONG, ONE_GPU, SHORT, ZERO_3, a_device, a_subject


def test_training_takes_six_flops_per_parameter_and_token() -> None:
    """Forward 2, backward 4; recomputing adds a forward, frozen weights save their gradient
    (arXiv:2001.08361).
    """
    checkpointed = replace(LONG, activation_checkpointing=Checkpointing.FULL)

    assert flops_per_parameter_and_token(LONG) == 6
    assert flops_per_parameter_and_token(checkpointed) == 8
    assert flops_per_parameter_and_token(ADAPTERS) == 4


def test_one_gpu_is_bound_by_arithmetic() -> None:
    """gpt2 on an A100 at its 312 TFLOP/s."""
    subject = a_subject("gpt2")

    assert seconds_per_token(subject, SHORT, ONE_GPU) == pytest.approx(6 * 124_439_808 / 312e12)


def test_a_slow_link_makes_sharded_weights_half_again_slower() -> None:
    """ZeRO-3 sends three parameters where data parallelism sends two (arXiv:1910.02054, section
    7).
    """
    architecture = a_subject("gpt2").architecture
    subject = make_evaluator(architecture, a_device(2**36, link_bytes_per_second=10**9))
    replicated = Layout(data_parallel=8)

    ratio = seconds_per_token(subject, SHORT, ZERO_3) / seconds_per_token(
        subject, SHORT, replicated
    )

    assert ratio == pytest.approx(1.5)


def test_larger_batches_hide_communication() -> None:
    """Twice the tokens per step halve what a link costs each token."""
    architecture = a_subject("gpt2").architecture
    subject = make_evaluator(architecture, a_device(2**36, link_bytes_per_second=10**9))
    doubled = replace(SHORT, gradient_accumulation_steps=2)

    assert seconds_per_token(subject, SHORT, ZERO_3) == pytest.approx(
        2 * seconds_per_token(subject, doubled, ZERO_3)
    )


def test_a_gpu_of_unknown_speed_still_compares_arithmetic() -> None:
    """A GPU that is only a number of bytes has ratios, no seconds."""
    nameless = replace(a_device(2**36), peak_flops={}, link_bytes_per_second=None)
    subject = make_evaluator(a_subject("gpt2").architecture, nameless)
    checkpointed = replace(SHORT, activation_checkpointing=Checkpointing.FULL)
    fsdp = Layout(data_parallel=8, zero_stage=3, sharding=Sharding.FSDP2)

    assert seconds_per_token(subject, checkpointed, fsdp) / seconds_per_token(
        subject, SHORT, ONE_GPU
    ) == pytest.approx(4 / 3)
