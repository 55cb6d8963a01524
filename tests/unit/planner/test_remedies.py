"""Remedies are tried on the model itself: each saves what it says."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.estimator.errors import NotModelledError
from service.estimator.layout import Layout
from service.estimator.result import Estimate
from service.estimator.units import GIB
from service.estimator.workload import Checkpointing, TrainWorkload, Workload
from service.planner.changes import changes
from service.planner.remedies import MAX_REMEDIES, Remedy, find_remedies
from service.planner.subject import Subject
from service.planner.verdict import Verdict, judge
from tests.unit.planner.builders import CHAT, LONG, ONE_GPU, SHORT, ZERO_3, a_subject, an_a100_subject, an_estimate

BATCHES = replace(SHORT, micro_batch_size=16)


def _remedies(subject: Subject, workload: Workload, layout: Layout = ONE_GPU) -> tuple[Remedy, ...]:
    return find_remedies(subject, workload, layout, subject.evaluate(workload, layout))


def _fields(remedies: Sequence[Remedy]) -> list[set[str]]:
    return [set(remedy.change) for remedy in remedies]


def test_full_fine_tuning_of_7b_on_one_a100_can_be_helped() -> None:
    """Adapters fit on the one GPU; sharding over four fits as well; a fused optimizer alone saves too little."""
    remedies = _remedies(an_a100_subject("llama-2-7b"), LONG)

    fitting = [remedy for remedy in remedies if remedy.verdict is Verdict.FITS]
    fused = next(remedy for remedy in remedies if remedy.change == {"optimizer": "adamw_fused"})
    assert {"method", "lora"} in _fields(fitting)
    assert any(remedy.change.get("data_parallel", 1) != 1 for remedy in fitting)
    assert fused.verdict is Verdict.DOES_NOT_FIT
    assert fused.slowdown == 1


@settings(max_examples=25, deadline=None)
@given(
    usable=st.integers(min_value=GIB, max_value=24 * GIB),
    workload=st.sampled_from([SHORT, BATCHES, CHAT, replace(CHAT, num_sequences=200)]),
    layout=st.sampled_from([ONE_GPU, Layout(data_parallel=4)]),
)
def test_every_remedy_saves_what_it_says(usable: int, workload: Workload, layout: Layout) -> None:
    """Evaluated again, each gives its verdict and its savings; none is empty or dearer than it looks."""
    subject = a_subject("gpt2-medium", usable_bytes=usable)
    if isinstance(workload, TrainWorkload) or layout == ONE_GPU:
        before = subject.evaluate(workload, layout)

        for remedy in find_remedies(subject, workload, layout, before):
            after = subject.evaluate(remedy.workload, remedy.layout)
            assert remedy.saves_bytes == before.device_bytes - after.device_bytes > 0
            assert remedy.verdict is judge(after, subject.device).verdict
            assert remedy.change == changes((workload, layout), (remedy.workload, remedy.layout)) != {}
            assert remedy.num_gpus == after.num_gpus
            assert remedy.num_gpus == before.num_gpus or remedy.verdict is Verdict.FITS


def test_what_suffices_comes_first_and_cheapest_in_time() -> None:
    """Order: verdict, then slowdown."""
    remedies = _remedies(an_a100_subject("llama-2-7b"), replace(LONG, micro_batch_size=8), Layout(data_parallel=8))

    order = [(list(Verdict).index(remedy.verdict), remedy.slowdown) for remedy in remedies]
    assert order == sorted(order)
    assert 0 < len(remedies) <= MAX_REMEDIES


def test_pairs_are_tried_where_no_single_change_suffices() -> None:
    """A large batch on replicas needs less of both: activations and states."""
    subject = an_a100_subject("llama-2-7b")
    remedies = _remedies(subject, replace(LONG, micro_batch_size=16), Layout(data_parallel=8))

    fitting = [remedy for remedy in remedies if remedy.verdict is Verdict.FITS]
    assert fitting
    assert any({"activation_checkpointing", "zero_stage"} <= set(remedy.change) for remedy in fitting)


def test_recomputing_costs_a_third_more_time() -> None:
    """One more forward of three passes' worth (arXiv:2205.05198)."""
    remedies = _remedies(a_subject("gpt2", usable_bytes=4 * GIB), BATCHES)

    recomputing = next(remedy for remedy in remedies if remedy.change == {"activation_checkpointing": "full"})
    assert recomputing.slowdown == pytest.approx(4 / 3, abs=0.001)


def test_the_largest_sufficient_micro_batch_is_proposed() -> None:
    """Of all halvings the first that suffices is kept."""
    subject = a_subject("gpt2", usable_bytes=6 * GIB)

    remedies = _remedies(subject, BATCHES)

    smaller = next(r for r in remedies if set(r.change) == {"micro_batch_size", "gradient_accumulation_steps"})
    assert smaller.verdict is Verdict.FITS
    assert isinstance(smaller.workload, TrainWorkload)
    size, steps = smaller.workload.micro_batch_size, smaller.workload.gradient_accumulation_steps
    assert size * steps == BATCHES.micro_batch_size
    larger = replace(BATCHES, micro_batch_size=2 * size, gradient_accumulation_steps=steps // 2)
    assert judge(subject.evaluate(larger, ONE_GPU), subject.device).verdict is not Verdict.FITS


def test_fewer_sequences_take_that_many_more_rounds() -> None:
    """A replica that serves half at once needs twice the rounds."""
    remedies = _remedies(a_subject("gpt2", usable_bytes=3 * GIB), replace(CHAT, num_sequences=64))

    (fewer,) = remedies
    assert fewer.verdict is Verdict.FITS
    assert fewer.slowdown == 64 / int(str(fewer.change["num_sequences"]))


def test_what_cannot_run_is_not_proposed() -> None:
    """A change without a term in the model is passed over."""
    real = a_subject("gpt2", usable_bytes=2 * GIB)

    def evaluate(workload: Workload, layout: Layout) -> Estimate:
        if isinstance(workload, TrainWorkload) and workload.activation_checkpointing is Checkpointing.FULL:
            raise NotModelledError("checkpointing", field="activation_checkpointing", modelled=["none"])
        return real.evaluate(workload, layout)

    subject = Subject(architecture=real.architecture, device=real.device, evaluate=evaluate)

    assert all("activation_checkpointing" not in names for names in _fields(_remedies(subject, BATCHES)))


def test_nothing_is_proposed_when_nothing_helps() -> None:
    """Where every change leaves the bytes as they are, there is no remedy."""
    real = a_subject("gpt2")
    subject = Subject(architecture=real.architecture, device=real.device, evaluate=lambda _w, _l: an_estimate(2**50))

    assert _remedies(subject, SHORT, ZERO_3) == ()
