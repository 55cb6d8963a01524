"""Answers about replayed jobs: reserved bytes and their slack."""

from dataclasses import replace
from threading import Event

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.result import Detail
from service.estimator.values.units import MIB
from service.estimator.values.workload import Allocator, ServeWorkload, TrainWorkload
from tests.unit.estimator.memory.allocator.test_replay import SHARDED, WORKLOAD, a_model

DEVICE = Device(name="card", capacity_bytes=2**40, usable_bytes=2**40)


def _answer(
    workload: TrainWorkload | ServeWorkload, layout: Layout, detail: Detail = Detail.REPLAYED
) -> tuple[int, int]:
    answer = estimate(a_model(), workload, layout=layout, device=DEVICE, detail=detail)
    return answer.allocated_bytes, answer.reserved_bytes


@pytest.mark.parametrize(
    "layout",
    [
        Layout(data_parallel=3),
        Layout(data_parallel=2, zero_stage=1, sharding=Sharding.DEEPSPEED),
        Layout(data_parallel=2, zero_stage=3, sharding=Sharding.DEEPSPEED),
    ],
)
@pytest.mark.parametrize(
    "workload", [WORKLOAD, TrainWorkload(sequence_length=1, optimizer="adamw_bnb")]
)
def test_nothing_is_reserved_less_than_it_is_allocated(
    workload: TrainWorkload, layout: Layout
) -> None:
    """Buffers of communication are in the replay as well, so that its segments hold what the
    timeline counts.
    """
    allocated, reserved = _answer(workload, layout)

    assert allocated <= reserved


def test_a_replay_changes_what_is_reserved_and_nothing_that_is_allocated() -> None:
    """The ratio gives way to the replay; the allocated bytes are the model's own."""
    plain, replayed = _answer(WORKLOAD, Layout(), Detail.FULL), _answer(WORKLOAD, Layout())

    assert plain[0] == replayed[0]
    assert plain[1] != replayed[1] >= replayed[0]


def test_expandable_segments_reserve_less_here() -> None:
    """Fixed segments leave remainders that one growing segment does not."""
    workload = replace(WORKLOAD, sequence_length=3 * WORKLOAD.sequence_length)
    expandable = replace(workload, allocator=Allocator.EXPANDABLE_SEGMENTS)

    assert _answer(expandable, Layout())[1] < _answer(workload, Layout())[1]
    assert (
        _answer(expandable, Layout(), Detail.FULL)[1] < _answer(workload, Layout(), Detail.FULL)[1]
    )


def test_serving_on_an_unknown_gpu_falls_back_to_the_ratio() -> None:
    """The kernels of a GPU that is only a number of bytes are not known."""
    workload = ServeWorkload(num_sequences=2, prompt_tokens=64)

    assert _answer(workload, Layout()) == _answer(workload, Layout(), Detail.FULL)


def test_components_of_a_replayed_answer_add_up() -> None:
    """The slack of the replay stands among the components."""
    answer = estimate(
        a_model(),
        WORKLOAD,
        layout=Layout(),
        device=DEVICE,
        plans=PlanCache(),
        detail=Detail.REPLAYED,
    )

    assert sum(component.bytes for component in answer.components) == answer.device_bytes
    slack = next(
        component for component in answer.components if component.name == "allocator_slack"
    )
    assert "segments" in slack.formula
    assert answer.reserved_interval.low <= answer.reserved_bytes <= answer.reserved_interval.high


def test_numbers_alone_are_the_numbers_of_the_explained_answer() -> None:
    """Nothing that a search sees depends on whether it is explained."""
    explained, numbers = (
        estimate(a_model(), WORKLOAD, layout=SHARDED, device=DEVICE, detail=detail)
        for detail in (Detail.FULL, Detail.NUMBERS)
    )

    assert numbers.components == ()
    assert numbers.phases == ()
    for name in ("allocated", "reserved", "device"):
        assert getattr(numbers, f"{name}_bytes") == getattr(explained, f"{name}_bytes")
        assert getattr(numbers, f"{name}_interval") == getattr(explained, f"{name}_interval")
    assert (numbers.peak_instant, numbers.steady_bytes) == (
        explained.peak_instant,
        explained.steady_bytes,
    )


def test_a_replay_that_was_given_up_is_made_when_it_is_asked_for_again() -> None:
    """Whoever leaves takes nothing along: the next one finds the recordings, and an answer of its
    own.
    """
    plans = PlanCache()

    def leave() -> None:
        raise TimeoutError

    def ask(cache: PlanCache) -> int:
        found = estimate(
            a_model(), WORKLOAD, layout=Layout(), device=DEVICE, plans=cache, detail=Detail.REPLAYED
        )
        return found.reserved_bytes

    with pytest.raises(TimeoutError):
        ask(plans.with_cancellation(leave))

    assert ask(plans) == ask(PlanCache())
    assert ask(plans.with_cancellation(leave)) == ask(plans)


def test_a_shared_replay_forgets_who_first_asked_for_it() -> None:
    """Another GPU, fuller, plays the same job again after its first asker has left."""
    plans, gone = PlanCache(), Event()

    def check() -> None:
        if gone.is_set():
            raise TimeoutError

    def ask(cache: PlanCache, usable_bytes: int) -> int:
        device = replace(DEVICE, capacity_bytes=usable_bytes, usable_bytes=usable_bytes)
        return estimate(
            a_model(), WORKLOAD, layout=Layout(), device=device, plans=cache, detail=Detail.REPLAYED
        ).device_bytes

    roomy = ask(plans.with_cancellation(check), DEVICE.usable_bytes)
    gone.set()

    assert ask(plans, roomy - 1) == ask(PlanCache(), roomy - 1)


def test_no_interval_is_narrower_than_a_segment() -> None:
    """A replay that is off is off by 2 MiB at least, however few the bytes and low the level."""
    workload = ServeWorkload(num_sequences=2, prompt_tokens=64)

    answer = estimate(
        a_model(),
        workload,
        layout=Layout(),
        device=resolve_gpu("H100-SXM5-80GB").to_device(),
        detail=Detail.REPLAYED,
        level=0.5,
    )

    assert answer.reserved_interval.high - answer.reserved_bytes >= 2 * MIB
