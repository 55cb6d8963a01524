"""What no replay is below, and which configurations are replayed."""

from itertools import product

import pytest

from service.estimator.cache import PlanCache
from service.estimator.values.corrections import Corrections, InstantCorrection
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.units import MIB
from service.estimator.values.workload import Allocator, Checkpointing, TrainWorkload
from service.planner.fit.evaluator import make_evaluator
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.replays import MAX_REPLAYED
from service.planner.search.search import Search
from service.planner.search.search_space import Limits, Question
from tests.unit.planner.builders import a_device, shallow

MODEL, PLANS = shallow("gpt2", 2, "n_layer"), PlanCache()
LAYOUTS = (Layout(), Layout(data_parallel=4, zero_stage=3, sharding=Sharding.FSDP2))
LEARNT = {
    "nothing": None,
    "moments": Corrections(
        calibration="test", instants={"backward": InstantCorrection(share=0.1)}, relative_error=0.02
    ),
    "reserved": Corrections(
        calibration="test", reserved_error=0.03, reserved_at_most_bytes=900 * MIB, outside_error=0.1
    ),
}


@pytest.mark.parametrize("learnt", LEARNT)
def test_no_replay_is_below_the_least(learnt: str) -> None:
    """Neither at the point nor at the upper end, whatever was learnt and however full the GPU
    is.
    """
    around = 0
    for layout, batch, usable, kind in product(LAYOUTS, (1, 8), (1024, 80 * 1024), Allocator):
        subject = make_evaluator(
            MODEL,
            a_device(usable * MIB),
            plans=PLANS,
            corrections_for=lambda _workload, _layout: LEARNT[learnt],
        )
        workload = TrainWorkload(sequence_length=512, micro_batch_size=batch, allocator=kind)
        least, replayed = subject.lower_bound(workload, layout), subject.answer(workload, layout)

        assert least is not None
        assert least.device_bytes <= replayed.device_bytes
        assert least.device_interval.high <= replayed.device_interval.high
        around += least.device_bytes > replayed.device_bytes / 2

    assert around


@pytest.mark.parametrize(
    "learnt",
    [
        Corrections(calibration="test", reserved=InstantCorrection(share=-0.1)),
        Corrections(calibration="test", device_at_least_bytes=10**9),
    ],
)
def test_nothing_is_told_where_less_may_become_more(learnt: Corrections) -> None:
    """What was measured of reserved bytes and of a GPU in use need not grow with what is
    reserved.
    """
    subject = make_evaluator(
        MODEL,
        a_device(80 * 1024 * MIB),
        plans=PLANS,
        corrections_for=lambda _workload, _layout: learnt,
    )

    assert subject.lower_bound(TrainWorkload(sequence_length=512), Layout()) is None


def test_what_lacks_room_without_a_hole_is_not_replayed() -> None:
    """Tensors that fill a GPU leave no room for the context: no order of them helps."""
    workload = TrainWorkload(
        sequence_length=512, micro_batch_size=8, activation_checkpointing=Checkpointing.NONE
    )
    allocated = (
        make_evaluator(MODEL, a_device(80 * 1024 * MIB), plans=PLANS)
        .estimate_numbers(workload, Layout())
        .allocated_bytes
    )
    device = a_device(allocated + MIB)
    subject = make_evaluator(MODEL, device, plans=PLANS)
    fixed = {"micro_batch_size", "activation_checkpointing", "data_parallel", "tensor_parallel"}
    question = Question(
        workload=workload,
        layout=Layout(),
        fixed=frozenset(fixed),
        limits=Limits(max_gpus=1),
        frameworks=frozenset({"ddp"}),
    )
    search = Search(subject, SearchSpace(MODEL, question, Offer(device=device)))

    assert not search.suffices(1)
    assert 0 < search.pruned["replay_at_best"] <= MAX_REPLAYED


def test_a_refusal_has_no_least() -> None:
    """What cannot run is refused in the same words."""
    subject = make_evaluator(MODEL, a_device(80 * 1024 * MIB), plans=PLANS)
    asked = TrainWorkload(sequence_length=4096), Layout()

    with pytest.raises(EstimatorError) as refused:
        subject.estimate_numbers(*asked)
    with pytest.raises(EstimatorError) as least:
        subject.lower_bound(*asked)

    assert str(least.value) == str(refused.value)
