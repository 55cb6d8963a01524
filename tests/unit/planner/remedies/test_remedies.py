"""Remedies are tried on the model itself: each saves what it says."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.estimator.cache import PlanCache
from service.estimator.values.corrections import Corrections, SpeedRatios
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.units import GIB
from service.estimator.values.workload import Checkpointing, Engine, TrainWorkload, Workload
from service.planner.fit.changes import list_changes
from service.planner.fit.evaluator import Evaluator, make_evaluator
from service.planner.fit.fit import FitReport, assess_fit
from service.planner.fit.remedy import Remedy
from service.planner.fit.verdict import Verdict, judge, needed_bytes
from service.planner.remedies.find import find_changes
from service.planner.remedies.selection import MAX_REMEDIES
from tests.unit.planner.builders import (
    CHAT,
    LONG,
    ONE_GPU,
    SHORT,
    ZERO_3,
    a_shallow_subject,
    a_subject,
    an_a100_subject,
    an_estimate,
    fit,
)

BATCHES = replace(SHORT, micro_batch_size=16)
PLANS = PlanCache()
ASKED: tuple[tuple[str, Workload, int], ...] = (
    ("gpt2", BATCHES, 4 * GIB),
    ("gpt2", replace(BATCHES, micro_batch_size=64), 2 * GIB),
    ("gpt2", replace(CHAT, num_sequences=256), 2 * GIB),
    ("gpt2-medium", replace(CHAT, engine=Engine.VLLM), 2 * GIB),
)


def _remedies(
    subject: Evaluator, workload: Workload, layout: Layout = ONE_GPU
) -> tuple[Remedy, ...]:
    return find_changes(subject, workload, layout)


def _fields(remedies: Sequence[Remedy]) -> list[set[str]]:
    return [set(remedy.change) for remedy in remedies]


def _estimate_step_s(subject: Evaluator, workload: Workload) -> float:
    throughput = subject.get_throughput(workload, ONE_GPU, subject.answer(workload, ONE_GPU))
    assert throughput is not None
    return throughput.step_time_s


def test_a_remedy_takes_the_time_that_it_is_answered_with() -> None:
    """Measured steps correct the times of remedies as they correct those of fits."""
    learnt = Corrections(calibration="c1", step_time_ratio=1.5)
    plain = a_subject("gpt2", usable_bytes=2 * GIB)
    subject = make_evaluator(
        plain.architecture, plain.device, corrections_for=lambda _workload, _layout: learnt
    )
    report = fit(subject, SHORT, ONE_GPU)

    assert report.remedies
    for remedy in report.remedies:
        answered = assess_fit(subject, remedy.workload, remedy.layout).throughput
        assert answered is not None
        assert remedy.cost.step_time_s == answered.step_time_s
    uncorrected = assess_fit(plain, SHORT, ONE_GPU).throughput
    assert report.throughput is not None
    assert uncorrected is not None
    assert report.throughput.step_time_s == 1.5 * uncorrected.step_time_s


def test_a_measured_question_is_compared_as_its_remedies_are_known() -> None:
    """What a prediction misses is in the measured step alone: beside times that nobody measured it
    would make each remedy look faster by as much.
    """
    slow = SpeedRatios(host=1.3, gpu=1.3)
    machine = Corrections(calibration="machine", basis="analytic", speeds=slow)
    measured = Corrections(
        calibration="c1", step_time_ratio=2.0, machine_speeds=slow, bases={"step_time": "measured"}
    )
    plain = a_subject("gpt2", usable_bytes=2 * GIB)

    def find_costs(learnt: Corrections) -> list[tuple[object, ...]]:
        subject = make_evaluator(
            plain.architecture,
            plain.device,
            corrections_for=lambda workload, _layout: learnt if workload == SHORT else machine,
        )
        costs = [remedy.cost for remedy in fit(subject, SHORT, ONE_GPU).remedies]
        return [(cost.time_ratio, cost.gpu_time_ratio, cost.cost_ratio) for cost in costs]

    assert find_costs(measured) == find_costs(machine) != []


def test_full_fine_tuning_of_7b_on_one_a100_can_be_helped() -> None:
    """Adapters fit on the one GPU; sharding over four fits as well; a fused optimizer alone saves
    too little.
    """
    subject = an_a100_subject("llama-2-7b")
    remedies = _remedies(subject, LONG)

    fitting = [remedy for remedy in remedies if remedy.verdict is Verdict.FITS]
    fused = next(remedy for remedy in remedies if remedy.change == {"optimizer": "adamw_fused"})
    assert {"method", "lora"} in _fields(fitting)
    assert any(remedy.change.get("data_parallel", 1) != 1 for remedy in fitting)
    assert fused.verdict is Verdict.DOES_NOT_FIT
    plain_s, fused_s = (
        _estimate_step_s(subject, workload)
        for workload in (LONG, replace(LONG, optimizer="adamw_fused"))
    )
    assert fused.cost.gpu_time_ratio == round(fused_s / plain_s, 3)
    assert fused_s < plain_s


@settings(max_examples=25, deadline=None)
@given(
    usable=st.integers(min_value=GIB, max_value=8 * GIB),
    workload=st.sampled_from([SHORT, BATCHES, CHAT, replace(CHAT, num_sequences=200)]),
    layout=st.sampled_from([ONE_GPU, Layout(data_parallel=4)]),
)
def test_every_remedy_saves_what_it_says(usable: int, workload: Workload, layout: Layout) -> None:
    """Evaluated again, each gives its verdict and its savings; none is empty or dearer than it
    looks, and none saves nothing but what narrows an interval until it fits.
    """
    subject = a_shallow_subject(6, usable_bytes=usable, model="gpt2-medium", plans=PLANS)
    if isinstance(workload, TrainWorkload) or layout == ONE_GPU:
        before = subject.answer(workload, layout)

        for remedy in find_changes(subject, workload, layout):
            after = subject.answer(remedy.workload, remedy.layout)
            assert remedy.saves_bytes == max(before.device_bytes - after.device_bytes, 0)
            assert remedy.saves_bytes or remedy.verdict is Verdict.FITS
            assert remedy.verdict is judge(after, subject.device).verdict
            assert (
                remedy.change
                == list_changes((workload, layout), (remedy.workload, remedy.layout))
                != {}
            )
            assert remedy.num_gpus == after.num_gpus
            assert remedy.num_gpus == before.num_gpus or remedy.verdict is Verdict.FITS


def test_what_suffices_comes_first_and_cheapest_in_time() -> None:
    """Order: verdict, then slowdown."""
    remedies = _remedies(
        an_a100_subject("llama-2-7b"), replace(LONG, micro_batch_size=8), Layout(data_parallel=8)
    )

    order = [
        (list(Verdict).index(remedy.verdict), remedy.cost.gpu_time_ratio) for remedy in remedies
    ]
    assert order == sorted(order)
    assert 0 < len(remedies) <= MAX_REMEDIES


def test_pairs_are_tried_where_no_single_change_suffices() -> None:
    """A large batch on replicas needs less of both: activations and states."""
    subject = an_a100_subject("llama-2-7b")
    remedies = _remedies(subject, replace(LONG, micro_batch_size=16), Layout(data_parallel=8))

    fitting = [remedy for remedy in remedies if remedy.verdict is Verdict.FITS]
    activations = {"activation_checkpointing", "micro_batch_size"}
    assert fitting
    assert any(
        activations & set(remedy.change) and "zero_stage" in remedy.change for remedy in fitting
    )


@pytest.mark.parametrize(("model", "workload", "usable_bytes"), ASKED)
def test_a_remedy_asked_by_itself_gives_the_same(
    model: str, workload: Workload, usable_bytes: int
) -> None:
    """Verdict, bytes and the ratio of times are those of two fit questions."""
    subject = a_subject(model, usable_bytes=usable_bytes)
    before = fit(subject, workload, ONE_GPU)
    assert before.remedies

    for remedy in before.remedies:
        after = fit(subject, remedy.workload, remedy.layout)
        assert after.verdict is remedy.verdict
        assert needed_bytes(before.estimate) - needed_bytes(after.estimate) == remedy.saves_bytes
        if after.throughput is None:  # every token reads the host's memory
            assert remedy.cost.gpu_time_ratio is None
            continue
        ratio = _rate(before) / _rate(after)
        assert remedy.cost.gpu_time_ratio == pytest.approx(ratio, abs=0.001)


def _rate(report: FitReport) -> float:
    assert report.throughput is not None
    return report.throughput.tokens_per_second_per_gpu


def test_recomputing_every_second_layer_can_be_helped() -> None:
    """Who recomputes some layers is told to recompute all of them."""
    every = replace(BATCHES, activation_checkpointing=Checkpointing.SELECTIVE, selective_every=4)

    assert {"activation_checkpointing": "full"} in [
        r.change for r in _remedies(a_subject("gpt2", usable_bytes=4 * GIB), every)
    ]


def test_recomputing_costs_a_third_more_time_where_nobody_told_the_rates() -> None:
    """One more forward of three passes' worth (arXiv:2205.05198)."""
    told = a_subject("gpt2", usable_bytes=4 * GIB)
    nameless = replace(told.device, peak_flops={}, link_bytes_per_second=None)
    remedies = _remedies(make_evaluator(told.architecture, nameless), BATCHES)

    recomputing = next(
        remedy for remedy in remedies if remedy.change == {"activation_checkpointing": "full"}
    )
    assert recomputing.cost.gpu_time_ratio == pytest.approx(4 / 3, abs=0.001)


def test_the_largest_sufficient_micro_batch_is_proposed() -> None:
    """Of all halvings the first that suffices is kept."""
    subject = a_subject("gpt2", usable_bytes=6 * GIB)

    remedies = _remedies(subject, BATCHES)

    smaller = next(
        r for r in remedies if set(r.change) == {"micro_batch_size", "gradient_accumulation_steps"}
    )
    assert smaller.verdict is Verdict.FITS
    assert isinstance(smaller.workload, TrainWorkload)
    size, steps = smaller.workload.micro_batch_size, smaller.workload.gradient_accumulation_steps
    assert size * steps == BATCHES.micro_batch_size
    larger = replace(BATCHES, micro_batch_size=2 * size, gradient_accumulation_steps=steps // 2)
    assert judge(subject.answer(larger, ONE_GPU), subject.device).verdict is not Verdict.FITS


def test_fewer_sequences_take_that_many_more_rounds_where_nobody_told_the_rates() -> None:
    """A replica that serves half at once needs twice the rounds."""
    told = a_subject("gpt2", usable_bytes=3 * GIB)
    nameless = replace(told.device, peak_flops={}, link_bytes_per_second=None)
    remedies = _remedies(
        make_evaluator(told.architecture, nameless), replace(CHAT, num_sequences=64)
    )

    fewer = next(remedy for remedy in remedies if set(remedy.change) == {"num_sequences"})
    assert fewer.verdict is Verdict.FITS
    assert fewer.cost.gpu_time_ratio == pytest.approx(
        64 / int(str(fewer.change["num_sequences"])), abs=0.001
    )


def test_what_cannot_run_is_not_proposed() -> None:
    """A change without a term in the model is passed over."""
    real = a_subject("gpt2", usable_bytes=2 * GIB)

    def evaluate(workload: Workload, layout: Layout) -> Estimate:
        if (
            isinstance(workload, TrainWorkload)
            and workload.activation_checkpointing is Checkpointing.FULL
        ):
            raise NotModelledError(
                "checkpointing", field="activation_checkpointing", modelled=["none"]
            )
        return real.evaluate(workload, layout)

    subject = Evaluator(architecture=real.architecture, device=real.device, evaluate=evaluate)

    assert all(
        "activation_checkpointing" not in names for names in _fields(_remedies(subject, BATCHES))
    )


def test_nothing_is_proposed_when_nothing_helps() -> None:
    """Where every change leaves the bytes as they are, there is no remedy."""
    real = a_subject("gpt2")
    subject = Evaluator(
        architecture=real.architecture,
        device=real.device,
        evaluate=lambda _w, _l: an_estimate(2**50),
    )

    assert _remedies(subject, SHORT, ZERO_3) == ()
