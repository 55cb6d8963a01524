"""The front door puts estimate, verdict, rules and remedies together."""

from dataclasses import replace

import pytest

from service.estimator.values.corrections import Corrections, InstantCorrection
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.units import GIB
from service.estimator.values.workload import Workload
from service.planner.fit.evaluator import make_evaluator
from service.planner.fit.verdict import Verdict
from tests.unit.planner.builders import LONG, ONE_GPU, SHORT, a_subject, an_a100_subject, fit


def test_what_fits_needs_no_remedies() -> None:
    """gpt2 on 80 GiB: headroom, rules, nothing to mend."""
    report = fit(a_subject("gpt2"), SHORT, ONE_GPU)

    assert report.verdict is Verdict.FITS
    assert report.headroom_bytes == 80 * GIB - report.estimate.device_bytes
    assert report.deficit_bytes == 0
    assert report.remedies == ()
    assert report.rules_of_thumb


def test_full_fine_tuning_of_7b_does_not_fit_on_one_a100() -> None:
    """Pure states are 100 GiB already; the report says by how much and what would help."""
    report = fit(an_a100_subject("llama-2-7b"), LONG, ONE_GPU)

    assert report.verdict is Verdict.DOES_NOT_FIT
    assert (
        report.deficit_bytes == report.estimate.device_bytes - report.device.usable_bytes > 20 * GIB
    )
    assert report.remedies


def test_the_same_configuration_turns_tight_and_then_too_large_as_memory_shrinks() -> None:
    """Verdicts come in their order, and a tight one has remedies."""
    need = a_subject("gpt2").answer(SHORT, ONE_GPU)

    verdicts = [
        fit(a_subject("gpt2", usable_bytes=usable), SHORT, ONE_GPU).verdict
        for usable in (need.device_interval.high, need.device_bytes, need.allocated_bytes)
    ]

    assert verdicts == [Verdict.FITS, Verdict.TIGHT, Verdict.DOES_NOT_FIT]


def test_corrections_reach_every_estimate() -> None:
    """What was learnt changes the answer, and the answer names it."""
    learnt = Corrections(
        calibration="c1", instants={"optimizer_step": InstantCorrection(fixed_bytes=GIB)}
    )

    def corrections_for(_workload: Workload, _layout: Layout) -> Corrections:
        return learnt

    plain = a_subject("gpt2")
    corrected = make_evaluator(plain.architecture, plain.device, corrections_for=corrections_for)

    assert fit(corrected, SHORT, ONE_GPU).estimate.calibration == "c1"
    assert fit(plain, SHORT, ONE_GPU).estimate.calibration is None


def test_what_cannot_run_is_refused() -> None:
    """The estimator's refusal passes through."""
    with pytest.raises(InvalidInputError, match="learned positions"):
        fit(a_subject("gpt2"), replace(SHORT, sequence_length=4096), ONE_GPU)
