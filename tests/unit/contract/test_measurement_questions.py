"""A stored request as the body that asks for it again."""

import json

import pytest

from service.api.http.decoding import read_json
from service.base.errors import InvalidRequestError
from service.contract.schemas.measurements import MeasurementRequest
from service.contract.to_answer.measurement_questions import build_question
from service.contract.to_question.layouts import read_layout
from service.contract.to_question.workloads import read_workload
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload
from service.jobs.artifacts import ArtifactName
from service.jobs.contract import (
    MeasureRequest,
    ModelSource,
    Priority,
    ProbeDevice,
    make_document,
    make_task,
)
from tests.builders import a_model

WORKLOADS = (
    TrainWorkload(sequence_length=256, precision=POLICIES["bf16"]),
    ServeWorkload(num_sequences=3, prompt_tokens=64, output_tokens=8),
)


def asked(workload: Workload, *, name: str | None) -> MeasureRequest:
    """Return a request that says everything that is not a default."""
    return MeasureRequest(
        model=ModelSource(architecture=a_model().describe(), name=name),
        task=make_task(workload),
        layout=Layout(data_parallel=2),
        device=ProbeDevice.TRACE,
        gpu="H200-SXM5-141GB",
        artifacts=(ArtifactName.MEMORY_SNAPSHOT,),
        priority=Priority.LOW,
        rank=1,
    )


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("name", ["llama-2-7b", None])
def test_the_body_asks_for_the_same(workload: Workload, name: str | None) -> None:
    """What the API would read from it is what was stored."""
    stored = make_document(asked(workload, name=name))

    body = read_json(json.dumps(build_question(stored)).encode(), MeasurementRequest)

    assert read_workload(body.workload)[0] == workload
    assert read_layout(body.layout)[0] == Layout(data_parallel=2)
    assert (body.device, body.gpu, body.priority, body.rank) == (
        ProbeDevice.TRACE,
        "H200-SXM5-141GB",
        Priority.LOW,
        1,
    )
    assert body.artifacts == (ArtifactName.MEMORY_SNAPSHOT,)
    assert (body.model == name) == (name is not None)


def test_what_another_version_stored_is_no_question() -> None:
    """A word that this version does not know cannot be asked again in its words."""
    stored = make_document(asked(WORKLOADS[0], name="llama-2-7b"))

    assert build_question({**stored, "colour": "red"}) is None


def test_unknown_word_in_a_list_names_what_there_is() -> None:
    """Whatever the list becomes in our hands."""
    workload = {"task": "train", "sequence_length": 64}
    body = {
        "model": "llama-2-7b",
        "workload": workload,
        "device": "trace",
        "artifacts": ["memory_snapshots"],
    }
    with pytest.raises(InvalidRequestError) as refused:
        read_json(json.dumps(body).encode(), MeasurementRequest)

    assert refused.value.detail.startswith(
        "artifacts[0]: unknown value 'memory_snapshots'. Did you mean 'memory_snapshot'?"
    )
