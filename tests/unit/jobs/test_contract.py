"""Messages on our own wires: what is written is what is read, and nothing else is read."""

from uuid import UUID

import pytest

from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Lora, Method, ServeWorkload, TrainWorkload, Workload
from service.jobs.codec import (
    decode_line,
    decode_payload,
    decode_request,
    encode_line,
    encode_request,
)
from service.jobs.contract import (
    JobPayload,
    MeasureRequest,
    ModelSource,
    ProbeDevice,
    Progress,
    ProtocolError,
    make_document,
    make_task,
    parse_measure_request,
)
from tests.job_builders import a_request, a_result

JOB = str(UUID(int=7))

WORKLOADS: list[Workload] = [
    TrainWorkload(sequence_length=256, micro_batch_size=2),
    TrainWorkload(
        sequence_length=8,
        method=Method.LORA,
        lora=Lora(rank=4, targets=("q_proj", "v_proj"), dtype=DType.BF16),
    ),
    ServeWorkload(num_sequences=4, prompt_tokens=16, output_tokens=3),
]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_request_survives_the_row_and_the_pipe(workload: Workload) -> None:
    """What was asked reaches the probe unchanged, through the job's row and through stdin."""
    request = MeasureRequest(
        model=ModelSource(architecture={"family": "llama"}),
        task=make_task(workload),
        layout=Layout(),
        device=ProbeDevice.CPU,
    )

    stored = parse_measure_request(make_document(request))

    assert stored == request
    probe = stored.make_probe_request(deadline_s=3.0)
    assert decode_request(encode_request(probe)) == probe
    assert probe.task.workload == workload


def test_a_result_survives_the_pipe() -> None:
    """Encoded lines end in one newline and are read back equal."""
    line = encode_line(a_result())

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_line(line) == a_result()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[]",
        b'{"type": "progress", "phase": "x"}',
        b'{"type": "nothing"}',
        b'{"type": "sample", "t_s": 0, "kind": "x"}',
    ],
)
def test_anything_else_is_refused(line: bytes) -> None:
    """A line that is no message is an error, not a default."""
    with pytest.raises(ProtocolError, match="probe protocol"):
        decode_line(line)


def test_an_unknown_field_is_refused() -> None:
    """Two versions that disagree say so."""
    line = encode_line(Progress(phase="x", done=0, total=1, fraction=0.0)).replace(
        b'"done"', b'"finished"'
    )

    with pytest.raises(ProtocolError, match="finished"):
        decode_line(line)


def test_a_stored_request_of_another_version_is_refused() -> None:
    """A row that this version cannot read fails in words."""
    with pytest.raises(ProtocolError, match="stored measurement request"):
        parse_measure_request({**make_document(a_request()), "surprise": 1})


def test_a_workload_that_cannot_be_is_refused() -> None:
    """The estimator's own checks hold on the wire too."""
    body = encode_request(a_request().make_probe_request(deadline_s=1.0)).replace(
        b'"sequence_length":8', b'"sequence_length":0'
    )

    with pytest.raises(ProtocolError, match="sequence_length is 0"):
        decode_request(body)


def test_a_ring_names_a_job_and_an_attempt() -> None:
    """The payload is two values."""
    job_id = UUID(int=7)

    assert decode_payload([str(job_id), 2]) == JobPayload(job_id=job_id, attempt=2)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["x", 1],
        [str(UUID(int=7))],
        [str(UUID(int=7)), "1"],
        [str(UUID(int=7)), 1, 2],
        [["rm"], 1],
    ],
)
def test_a_ring_of_anything_else_is_refused(arguments: list[object]) -> None:
    """Whoever writes to Redis cannot say more than that."""
    with pytest.raises(ProtocolError, match="payload"):
        decode_payload(arguments)
