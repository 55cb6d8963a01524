"""Times of an optimizer's step behind the last backward."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.speed.exposure import UpdateTimes, estimate_update
from service.estimator.speed.machine import Machine
from service.estimator.speed.micro_batch import PassTimes
from service.estimator.speed.stretches import time_passes
from service.estimator.speed.throughput import WorkCache
from service.estimator.speed.training import StepTimer
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import TrainWorkload
from tests.builders import a_model

H100 = resolve_gpu("H100-SXM5-80GB").to_device()
MODEL = a_model(num_hidden_layers=8, hidden_size=1024, intermediate_size=4096)
LARGE = TrainWorkload(
    sequence_length=2048,
    micro_batch_size=32,
    precision=POLICIES["bf16"],
    optimizer="adamw_loop",
)
ALONE = Layout()


def make_timer() -> StepTimer:
    """Return the timer of large batches, which wait for the GPU."""
    return WorkCache().get_timer(MODEL, LARGE, H100)


def get_machine(timer: StepTimer) -> Machine:
    """Return the timer's GPU."""
    machine = timer.get_machine(LARGE, ALONE)
    assert machine is not None
    return machine


def time_update(timer: StepTimer, machine: Machine) -> UpdateTimes:
    """Return the times of an optimizer's step without the states' traffic."""
    return estimate_update(LARGE, ALONE, timer.trained, machine, state_bytes=0)


def test_trainer_launches_no_update_before_it_has_the_loss() -> None:
    """The host is far ahead of the GPU, and yet none of its launches is hidden by backward."""
    timer = make_timer()
    machine = get_machine(timer)
    update = time_update(timer, machine)
    passes: PassTimes = time_passes(MODEL, LARGE, ALONE, timer.trained, timer.work, machine)

    seconds = timer.estimate_step_s(LARGE, ALONE, state_bytes=0)

    assert passes.host_lead_s > update.host_s > update.gpu_s
    assert seconds == pytest.approx(passes.total + update.host_s)


def test_an_update_is_launched_without_autograd() -> None:
    """Its launches cost the host as much as those of a decode step."""
    timer = make_timer()
    machine = get_machine(timer)
    graphed = replace(machine, rates=replace(machine.rates, ungraphed=1.0))

    own, other = time_update(timer, machine), time_update(timer, graphed)

    assert own.host_s == pytest.approx(machine.rates.ungraphed * other.host_s)
    assert own.gpu_s == other.gpu_s
