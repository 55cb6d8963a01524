"""Who brings a measurement learns whether it corrects anything, and if not, what it lacks."""

import pytest

from service.calibration.field import explain_excess
from service.estimator.values.workload import Engine, ServeWorkload, TrainWorkload
from service.formats.measured.reading import Quantity
from service.usecases.imports.eligibility import explain_ineligibility

TRAIN = TrainWorkload(sequence_length=8)
SERVE = ServeWorkload(num_sequences=1, prompt_tokens=8, engine=Engine.VLLM)
RELEASES = {"torch": "2.13.0", "transformers": "5.23.0"}


@pytest.mark.parametrize(
    ("told", "environment", "words"),
    [
        ([Quantity.ALLOCATED], RELEASES, ()),
        (
            [Quantity.ALLOCATED, Quantity.RESERVED],
            {"torch": "2.13.0"},
            ("releases of torch and transformers",),
        ),
        (
            [Quantity.DEVICE],
            RELEASES,
            ("device_bytes of such a run, and of larger ones, are at least as much",),
        ),
        (
            [Quantity.DEVICE_TOTAL_USED],
            {},
            ("corrects no answer", "releases of torch and transformers"),
        ),
        ([], {}, ("PyTorch's allocator counted", ", nor the releases")),
    ],
)
def test_what_is_lacking_is_said(
    told: list[Quantity], environment: dict[str, str], words: tuple[str, ...]
) -> None:
    """Device bytes alone are a bound, an unknown release corrects nothing: each is named once."""
    said = explain_ineligibility(told, environment, TRAIN)

    assert len(said) == bool(words)
    assert all(word in said[0] for word in words)


def test_more_than_a_job_can_need_is_no_bound() -> None:
    """What else was on the GPU is not the job's: the reading is kept, and nothing is promised of
    it.
    """
    excess = explain_excess(1701, 1000)

    assert excess is not None
    assert explain_excess(1700, 1000) is None
    assert explain_ineligibility([Quantity.DEVICE], RELEASES, TRAIN, excess=excess) == (
        f"corrects no answer: {excess}",
    )


def test_an_engine_is_no_evidence_of_what_is_asked_of_it() -> None:
    """It takes its budget, whatever the question."""
    assert explain_ineligibility([Quantity.DEVICE], RELEASES, SERVE)[0].startswith(
        "corrects no answer: an engine fills its budget"
    )
