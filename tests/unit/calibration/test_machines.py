"""What the times of all questions tell of a machine."""

from math import exp, log
from uuid import uuid4

import pytest

from service.calibration.apply import ONLY_PART
from service.calibration.derive import Calibration, calibrate
from service.calibration.document import from_document, to_document
from service.calibration.environment import Environment
from service.calibration.evidence import Evidence, MeasuredPoint, Quantity
from service.calibration.machines import build_machines, combine_speeds, get_machine_name
from service.calibration.pool import Group, Member
from service.calibration.speeds import NOISE
from service.estimator.values.corrections import SHIPPED_SPEEDS
from service.estimator.values.result import Bound

HOST, GPU = Bound.HOST.value, Bound.GPU.value
PLACE = Environment(gpu="H100-SXM5-80GB", driver="580")
POINT = MeasuredPoint(num_layers=4, micro_batch_size=1, sequence_length=512)


def learn(*ratios: float, side: str = HOST, claimed: bool = False) -> Calibration:
    """Return the calibration of step times that a side explains by some ratios."""
    evidence = [
        Evidence(
            measurement=str(uuid4()),
            point=POINT,
            measured={ONLY_PART: 100},
            predicted={ONLY_PART: 100},
            quantity=Quantity.STEP_TIME,
            claimed=claimed,
            speeds={side: log(ratio)},
        )
        for ratio in ratios
    ]
    calibration = calibrate(evidence)
    assert calibration is not None
    return calibration


def make_member(key: str, calibration: Calibration, place: Environment = PLACE) -> Member:
    """Return a key that was timed in an environment."""
    group = Group(
        quantity=Quantity.STEP_TIME, kind="training", environment=place.name, family="llama"
    )
    return Member(key=key, group=group, calibration=calibration, gpu=place.gpu)


def learn_host(*members: Member) -> float:
    """Return the host's ratio of the machine that some keys were timed on."""
    return combine_speeds(build_machines(members)[get_machine_name(PLACE.key)]).host


def test_one_run_tells_of_a_host_that_is_unlike_the_shipped_one() -> None:
    """Twice as slow is no noise: all of it is believed, and nothing of the GPU."""
    machines = build_machines([make_member("a", learn(2.0))])

    speeds = combine_speeds(machines[get_machine_name(PLACE.key)])

    assert speeds.host == pytest.approx(2.0)
    assert speeds.gpu == 1.0


def test_a_run_within_what_runs_differ_by_changes_nothing() -> None:
    """The shipped rates rest on many runs, of which single ones are as far off."""
    within = exp(0.9 * NOISE[Bound.HOST])

    assert learn_host(make_member("a", learn(within))) == 1.0


def test_runs_that_agree_are_believed_more() -> None:
    """Of one key, and of several."""
    ratio = exp(1.5 * NOISE[Bound.HOST])
    one = learn_host(make_member("a", learn(ratio)))

    assert one < learn_host(make_member("a", learn(ratio, ratio))) < ratio
    assert one < learn_host(make_member("a", learn(ratio)), make_member("b", learn(ratio))) < ratio


def test_each_machine_has_its_own_speeds() -> None:
    """Another driver is another machine; another kernel of attention is the same."""
    other = Environment(gpu=PLACE.gpu, driver="535")
    kernel = Environment(gpu=PLACE.gpu, driver=PLACE.driver, cudnn_attention=True)

    machines = build_machines(
        [
            make_member("a", learn(2.0), other),
            make_member("b", learn(3.0), kernel),
        ]
    )

    assert set(machines) == {get_machine_name(other.key), get_machine_name(PLACE.key)}


def test_a_question_that_differs_from_its_machine_keeps_its_own() -> None:
    """Its own times come before those of others, shrunk towards them."""
    slow, usual = learn(3.0), learn(1.0)
    machine = {HOST: 0.0}

    assert combine_speeds(machine, [slow.speeds]).host == pytest.approx(3.0, rel=0.02)
    assert combine_speeds(machine, [usual.speeds]) == SHIPPED_SPEEDS


def test_what_is_only_claimed_tells_nothing_of_a_machine() -> None:
    """Nobody vouches for where an imported time was taken."""
    assert learn(2.0, claimed=True).speeds == {}
    assert build_machines([make_member("a", learn(2.0, claimed=True))]) == {}


def test_speeds_are_stored_with_the_calibration() -> None:
    """One that was stored before has none."""
    calibration = learn(1.3, side=GPU)
    document = to_document(calibration)

    assert from_document(document) == calibration
    before = {name: value for name, value in document.items() if name != "speeds"}
    assert from_document(before).speeds == {}
