"""What is told of a batch on one GPU is told on others that have room for it."""

from dataclasses import replace
from itertools import chain

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.result import Detail, Estimate
from service.estimator.values.units import MIB
from service.estimator.values.workload import Allocator, ServeWorkload, TrainWorkload, Workload

MODEL = load_architecture(resolve_model("gpt2"))
ROOM = Device(name="H100-SXM5-80GB", capacity_bytes=2**40, usable_bytes=2**40)
TRAIN = TrainWorkload(sequence_length=64)
ASKED: dict[str, tuple[Workload, Layout, Detail]] = {
    "replayed": (TRAIN, Layout(), Detail.REPLAYED),
    "by a ratio": (TRAIN, Layout(), Detail.FULL),
    "numbers alone": (TRAIN, Layout(), Detail.NUMBERS),
    "growing segments": (
        replace(TRAIN, allocator=Allocator.EXPANDABLE_SEGMENTS),
        Layout(),
        Detail.REPLAYED,
    ),
    "on two ranks": (TRAIN, Layout(data_parallel=2), Detail.REPLAYED),
    "served": (ServeWorkload(num_sequences=2, prompt_tokens=64), Layout(), Detail.REPLAYED),
}


def ask(name: str, device: Device, plans: PlanCache, level: float = 0.95) -> Estimate:
    """Return the estimate of a question on a GPU."""
    workload, layout, detail = ASKED[name]
    return estimate(
        MODEL, workload, layout=layout, device=device, plans=plans, detail=detail, level=level
    )


@pytest.mark.parametrize("name", ASKED)
def test_a_gpu_of_any_memory_is_answered_as_if_no_other_was(name: str) -> None:
    """Where it has room, where it is full and where it is too small, in this order and back."""
    kept, told = PlanCache(), ask(name, ROOM, PlanCache())
    ends = (told.allocated_bytes, told.device_bytes, told.device_interval.high)
    memories = sorted(chain.from_iterable((end - MIB, end, end + MIB) for end in ends))
    devices = [replace(ROOM, usable_bytes=number) for number in (2**40, *memories[::-1], *memories)]
    answers = [ask(name, device, kept) for device in devices]

    alone = PlanCache()
    for device, answer in zip(devices, answers, strict=True):
        for memo in ("explained steps", "outlined steps", "explained replicas"):
            alone.get_memo(memo).clear()
        assert answer == ask(name, device, alone)


def test_kinds_of_gpus_and_levels_are_told_apart() -> None:
    """A GPU of another name has another context, and another level other intervals."""
    kept = PlanCache()
    asked = [
        (replace(ROOM, name=gpu), level)
        for gpu in ("H100-SXM5-80GB", "A100-SXM4-80GB", "nobody's")
        for level in (0.95, 0.5)
    ]
    answers = [ask("replayed", device, kept, level) for device, level in asked]

    assert answers == [ask("replayed", device, PlanCache(), level) for device, level in asked]
    assert len({answer.device_interval for answer in answers}) == len(asked)
