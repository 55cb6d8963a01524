"""The in-process book of calibrations: which holds for a question, and what a broken one does."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from service.calibration.apply import ONLY_PART, get_point
from service.calibration.derive import calibrate
from service.calibration.document import to_document
from service.calibration.environment import Environment
from service.calibration.evidence import Evidence, Quantity
from service.calibration.key import build_calibration_key, get_run_kind
from service.db.records.stored import StoredCalibration
from service.estimator.values.layout import Layout
from service.estimator.values.workload import TrainWorkload
from service.usecases.learning.corrections import CorrectionCache
from tests.unit.usecases.builders import named_model

MODEL = named_model("tiny").architecture
WORKLOAD = TrainWorkload(sequence_length=64)
LAYOUT = Layout()
START = datetime(2026, 1, 1, tzinfo=UTC)


def learnt(
    *,
    minutes: int = 0,
    quantity: str = "allocated",
    document: dict[str, object] | None = None,
    workload: TrainWorkload = WORKLOAD,
    on: Environment | None = None,
    speeds: Mapping[str, float] | None = None,
) -> StoredCalibration:
    """Return what one measurement of the tiny model taught."""
    parts = ("forward", "backward") if quantity == "allocated" else (ONLY_PART,)
    evidence = Evidence(
        measurement=str(uuid4()),
        point=get_point(MODEL, workload, LAYOUT),
        quantity=Quantity(quantity),
        measured=dict.fromkeys(parts, 2_200_000),
        predicted=dict.fromkeys(parts, 2_000_000),
        speeds=speeds or {},
    )
    calibration = calibrate([evidence])
    assert calibration is not None
    environment = on or Environment()
    return StoredCalibration(
        id=uuid4(),
        key=environment.key.build_curve_key(build_calibration_key(MODEL, workload, LAYOUT)),
        kind=get_run_kind(workload, LAYOUT, Quantity.ALLOCATED),
        family=MODEL.family,
        environment=environment.name,
        quantity=quantity,
        scope={"gpu": environment.gpu},
        correction=to_document(calibration) if document is None else document,
        evidence=(UUID(evidence.measurement),),
        created_at=START + timedelta(minutes=minutes),
    )


class FakeStore:
    """Storage that remembers since when it was asked."""

    def __init__(self, *stored: StoredCalibration) -> None:
        """Hold some calibrations."""
        self.stored = list(stored)
        self.asked: list[datetime | None] = []

    def read_changed(self, since: datetime | None) -> tuple[StoredCalibration, ...]:
        """Return everything, as storage may do."""
        self.asked.append(since)
        return tuple(self.stored)


def found_in(book: CorrectionCache) -> str | None:
    """Return which calibration answers for the tiny model."""
    corrections = book.find(MODEL, WORKLOAD, LAYOUT)
    return None if corrections is None else corrections.calibration


def test_nothing_holds_before_something_was_learnt() -> None:
    """An empty book corrects nothing."""
    book = CorrectionCache(read_changed=FakeStore().read_changed)
    book.refresh()

    assert found_in(book) is None


def test_the_newest_calibration_of_a_key_holds() -> None:
    """A later one replaces an earlier one, and the book asks for changes since the newest it
    knows.
    """
    first, second = learnt(), learnt(minutes=5)
    store = FakeStore(first)
    book = CorrectionCache(read_changed=store.read_changed)
    book.refresh()
    before = found_in(book)
    store.stored = [second]
    book.refresh()
    book.refresh()

    assert before == str(first.id)
    assert found_in(book) == str(second.id)
    assert store.asked == [None, first.created_at, second.created_at]


def test_another_configuration_is_not_corrected() -> None:
    """A key stands for everything that moves the curve."""
    book = CorrectionCache(read_changed=FakeStore(learnt()).read_changed)
    book.refresh()

    assert book.find(MODEL, TrainWorkload(sequence_length=64, optimizer="sgd"), LAYOUT) is None
    assert book.find(MODEL, TrainWorkload(sequence_length=128), LAYOUT) is not None


def test_other_quantities_do_not_correct_allocated_bytes() -> None:
    """What is reserved has a correction of its own, beside which the allocated bytes and their
    interval stay.
    """
    book = CorrectionCache(read_changed=FakeStore(learnt(quantity="reserved")).read_changed)
    book.refresh()

    found = book.find(MODEL, WORKLOAD, LAYOUT)

    assert found is not None
    assert (dict(found.instants), found.relative_error) == ({}, None)
    assert found.reserved.fixed_bytes == 200_000


def test_an_unreadable_calibration_corrects_nothing() -> None:
    """What a newer version wrote in another shape is skipped, and what it replaced no longer
    holds.
    """
    store = FakeStore(learnt())
    book = CorrectionCache(read_changed=store.read_changed)
    book.refresh()
    store.stored = [learnt(minutes=5, document={"shape": "unknown"})]
    book.refresh()

    assert found_in(book) is None


@pytest.mark.parametrize("drivers", [("570.1", None), (None, "570.1")])
def test_who_does_not_tell_a_driver_hides_nobody_who_does(drivers: tuple[str | None, ...]) -> None:
    """What a GPU runs on is what was told of it, and what was measured under an unknown driver
    fills the gaps.
    """
    lengths = (64, 128)
    stored = [
        learnt(
            minutes=minutes,
            workload=replace(WORKLOAD, optimizer=optimizer),
            on=Environment(gpu="H200", driver=driver),
        )
        for minutes, (driver, optimizer) in enumerate(zip(drivers, ("adamw", "sgd"), strict=True))
    ]
    book = CorrectionCache(read_changed=FakeStore(*stored).read_changed)
    book.refresh()

    found = [
        book.find(
            MODEL, replace(WORKLOAD, optimizer=optimizer, sequence_length=length), LAYOUT, "H200"
        )
        for optimizer in ("adamw", "sgd")
        for length in lengths
    ]

    assert book.get_environment_key("H200").name.startswith("H200, driver 570.1, ")
    assert [None if one is None else one.calibration for one in found] == [
        str(one.id) for one in stored for _ in lengths
    ]


def test_a_gpu_that_ran_cudnns_attention_is_found_by_it() -> None:
    """Nobody who asks knows the kernel: what was measured in cuDNN's comes first, and is found by
    who runs the GPU.
    """
    on = Environment(gpu="H200", driver="570.1")
    flash, cudnn = learnt(on=on), learnt(minutes=1, on=replace(on, cudnn_attention=True))
    kept = CorrectionCache(read_changed=FakeStore(flash).read_changed)
    both = CorrectionCache(
        read_changed=FakeStore(flash, cudnn).read_changed, read_environments=lambda: (on,)
    )
    for book in (kept, both):
        book.refresh()

    found = [book.find(MODEL, WORKLOAD, LAYOUT, "H200") for book in (kept, both)]

    assert [None if one is None else one.calibration for one in found] == [
        str(flash.id),
        str(cudnn.id),
    ]
    assert both.get_environment_key("H200") == on.key


def test_a_time_corrects_other_questions_on_its_machine() -> None:
    """A slow host is slow for whatever is asked of that GPU, and says nothing of another one, nor
    of bytes.
    """
    place = Environment(gpu="H200", driver="570.1")
    timed = learnt(quantity="step_time", on=place, speeds={"host": 0.5})
    book = CorrectionCache(read_changed=FakeStore(timed).read_changed)
    book.refresh()
    other = replace(WORKLOAD, optimizer="sgd")

    found = book.find(MODEL, other, LAYOUT, "H200")

    assert found is not None
    assert found.is_of_time_alone
    assert 1.5 < found.speeds.host < 1.65
    assert (found.step_time_ratio, found.bases["step_time"]) == (1.0, "calibrated")
    assert book.find(MODEL, other, LAYOUT, "H100") is None


def test_a_measured_time_is_answered_as_it_was_measured() -> None:
    """Its own point has its ratio, another batch of the same key has the machine's speeds."""
    place = Environment(gpu="H200", driver="570.1")
    timed = learnt(quantity="step_time", on=place, speeds={"host": 0.5})
    book = CorrectionCache(read_changed=FakeStore(timed).read_changed)
    book.refresh()

    own, larger = (
        book.find(MODEL, replace(WORKLOAD, micro_batch_size=size), LAYOUT, "H200")
        for size in (1, 4)
    )

    assert own is not None
    assert larger is not None
    assert own.speeds.host == 1.0
    assert own.step_time_ratio == pytest.approx(1.1)
    assert (larger.speeds.host > 1.5, larger.step_time_ratio) == (True, 1.0)
