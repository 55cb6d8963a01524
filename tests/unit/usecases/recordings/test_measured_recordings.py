"""Measurements of recorded models that are taken, and those that no probe runs."""

import pytest

from service.estimator.model.families.registry import architecture_from_spec
from service.estimator.values.errors import NotModelledError, UnknownModelTypeError
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Engine, ServeWorkload, TrainWorkload, Workload
from service.usecases.jobs.measurable import check_plannable
from tests.recordings import make_recorded

STEP = TrainWorkload(sequence_length=64, precision=POLICIES["bf16"])
SERVED = ServeWorkload(num_sequences=1, prompt_tokens=8, engine=Engine.TRANSFORMERS)


def test_a_step_of_a_causal_language_model_is_measured() -> None:
    """The probe records it anew, and its specification says that nothing else can."""
    model = make_recorded()

    check_plannable(model, STEP, Layout())

    with pytest.raises(UnknownModelTypeError):
        architecture_from_spec(model.describe() | {"family": "llama"})


@pytest.mark.parametrize(
    ("workload", "layout"),
    [(SERVED, Layout()), (STEP, Layout(data_parallel=2))],
    ids=["served", "two GPUs"],
)
def test_other_measurements_of_recordings_are_refused(workload: Workload, layout: Layout) -> None:
    """With what is measured of them."""
    with pytest.raises(NotModelledError, match="a training step of a causal"):
        check_plannable(make_recorded(), workload, layout)
