"""Messages between the service, the worker and its probe process.

The payload of a notification is ``(job id, attempt)`` and nothing more. The probe gets one
``ProbeRequest`` as JSON on stdin and answers with JSON lines on stdout: a ``Planned``, any number
of ``Progress`` and ``Sample``, then one ``ProbeResult`` or ``ProbeFailure``.
"""

from enum import StrEnum
from uuid import UUID

import msgspec

from service.base.typed import convert
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload
from service.jobs.artifacts import ArtifactName, KeptFile
from service.jobs.host import Host
from service.jobs.readings import InstantReading, Peaks, ProbeReading, StepTime

JOBS, JOBS_VERSION = "jobs", "2"
"""Entry of a worker's versions: since 2 it leaves to others what it cannot read."""


class ProbeDevice(StrEnum):
    """Device of a probe: a CPU, fake tensors, or a GPU."""

    CPU = "cpu"
    TRACE = "trace"
    CUDA = "cuda"


class FailureKind(StrEnum):
    """Reason why a probe can never answer this request.

    Asking again would not help.
    """

    UNSUPPORTED = "unsupported"
    DOES_NOT_FIT_HOST = "does-not-fit-host"
    NOT_AVAILABLE_YET = "not-available-yet"
    INVALID_REQUEST = "invalid-request"
    PROBE_ERROR = "probe-error"


class _Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all messages; unknown fields are refused."""


class JobPayload(_Message, frozen=True, kw_only=True):
    """Job id and attempt, as sent through Redis.

    The attempt is the one that the notifier saw; the claim expects it.
    """

    job_id: UUID
    attempt: int


class TrainTask(_Message, frozen=True, kw_only=True, tag_field="task", tag="train"):
    """A training step as JSON: ``{"task": "train", "workload": {…}}``."""

    workload: TrainWorkload


class ServeTask(_Message, frozen=True, kw_only=True, tag_field="task", tag="serve"):
    """A serving replica as JSON: ``{"task": "serve", "workload": {…}}``."""

    workload: ServeWorkload


Task = TrainTask | ServeTask


class ModelSource(_Message, frozen=True, kw_only=True):
    """A model as resolved when the job was submitted.

    ``architecture`` is our own spec (``Architecture.describe()``); ``hf_config`` the config.json it
    came from, without which no real model can be built. ``name`` and ``revision`` are those of a
    stored or catalogue model.
    """

    architecture: dict[str, object]
    hf_config: dict[str, object] | None = None
    name: str | None = None
    revision: int | None = None


class Priority(StrEnum):
    """Order of queued jobs."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class MeasureRequest(_Message, frozen=True, kw_only=True):
    """A resolved measurement request, as the job's row keeps it.

    ``gpu`` names the GPU that the answer is for, ``rank`` the rank of the layout that is run: the
    first holds most.
    """

    model: ModelSource
    task: Task
    layout: Layout
    device: ProbeDevice
    gpu: str | None = None
    full_depth: bool = False
    priority: Priority = Priority.NORMAL
    rank: int = 0
    artifacts: tuple[ArtifactName, ...] = ()

    def make_probe_request(
        self, *, deadline_s: float, files: dict[ArtifactName, int] | None = None
    ) -> "ProbeRequest":
        """Return the part that the probe needs.

        ``files`` are open descriptors for its artifacts.
        """
        return ProbeRequest(
            model=self.model,
            task=self.task,
            layout=self.layout,
            device=self.device,
            full_depth=self.full_depth,
            rank=self.rank,
            deadline_s=deadline_s,
            files=files or {},
        )


class RecordingRequest(_Message, frozen=True, kw_only=True):
    """A config to be recorded, as the job's row keeps it.

    ``config_digest`` is the address of what the config says.
    """

    config: dict[str, object]
    config_digest: str


JobRequest = MeasureRequest | RecordingRequest


class ProbeRequest(_Message, frozen=True, kw_only=True):
    """One measurement as the probe process sees it.

    ``deadline_s`` is the parent's, sent so that a plan can be shorter.

    ``files`` has a descriptor for each artifact that was asked for: the probe inherits it and
    writes there, gzipped.
    """

    model: ModelSource
    task: Task
    layout: Layout
    device: ProbeDevice
    full_depth: bool = False
    rank: int = 0
    deadline_s: float
    files: dict[ArtifactName, int] = {}


class Progress(_Message, frozen=True, kw_only=True, tag_field="type", tag="progress"):
    """Progress through the plan's steps.

    ``done`` of ``total`` steps of the entire plan, as a ``fraction`` of 0 to 1, and the latest
    numbers in words.
    """

    phase: str
    done: int
    total: int
    fraction: float
    reading: str = ""


class PlannedRun(_Message, frozen=True, kw_only=True):
    """One planned run of a model, its reason and duration.

    Sizes are as in ``ProbeReading``.
    """

    num_layers: int
    micro_batch_size: int
    sequence_length: int
    why: str
    expected_s: float
    output_tokens: int = 0


class Planned(_Message, frozen=True, kw_only=True, tag_field="type", tag="plan"):
    """Plan of all runs, sent before any of them begins.

    ``expected_s`` is for all of it, on this ``host``.
    """

    runs: tuple[PlannedRun, ...]
    expected_s: float
    notes: tuple[str, ...] = ()
    host: Host | None = None


class Sample(_Message, frozen=True, kw_only=True, tag_field="type", tag="sample"):
    """A counter reading ``t_s`` seconds after the probe began.

    ``kind`` is as in ``process_rss`` or ``allocated``.
    """

    t_s: float
    kind: str
    bytes: int


class ProbeResult(_Message, frozen=True, kw_only=True, tag_field="type", tag="result"):
    """Result of a probe.

    ``peaks`` and ``instants`` are for the requested model; ``extrapolated`` says whether from the
    slices in ``probes``.

    ``transferable``: the kernels were those that CUDA would choose, so allocated bytes may correct
    a GPU's; else ``notes`` say why not.
    """

    environment: dict[str, str | int | None]
    peaks: Peaks
    instants: tuple[InstantReading, ...]
    probes: tuple[ProbeReading, ...]
    extrapolated: bool
    transferable: bool = True
    steady_bytes: int | None = None
    step_time_s: StepTime | None = None
    notes: tuple[str, ...] = ()
    files: tuple[KeptFile, ...] = ()


class ProbeFailure(_Message, frozen=True, kw_only=True, tag_field="type", tag="failure"):
    """Refusal of a probe, with what would be right.

    The job fails at once; a probe that dies is run again.
    """

    kind: FailureKind
    message: str


ProbeUpdate = Progress | Sample | Planned
"""Message of a probe before its answer."""
ProbeLine = ProbeUpdate | ProbeResult | ProbeFailure


class ProtocolError(ValueError):
    """Invalid bytes for a message of the protocol."""


def make_task(workload: Workload) -> Task:
    """Return the tagged form of a workload."""
    return (
        TrainTask(workload=workload)
        if isinstance(workload, TrainWorkload)
        else ServeTask(workload=workload)
    )


def make_document(message: MeasureRequest) -> dict[str, object]:
    """Return a request as plain JSON values, for the job's row."""
    document: dict[str, object] = msgspec.to_builtins(message)
    # Workers of the version before refuse a word that they do not know, so it is there for those
    # who asked alone.
    if not message.artifacts:
        del document["artifacts"]
    return document


def parse_measure_request(document: object) -> MeasureRequest:
    """Read back a request from ``make_document``."""
    try:
        return convert(document, MeasureRequest)
    except msgspec.ValidationError as error:
        reason = f"not a stored measurement request: {error}"
        raise ProtocolError(reason) from error


def parse_job_request(document: object) -> JobRequest:
    """Read back the request of a job, whatever it asks for."""
    if not (isinstance(document, dict) and "config_digest" in document):
        return parse_measure_request(document)
    try:
        return convert(document, RecordingRequest)
    except msgspec.ValidationError as error:
        reason = f"not a stored recording request: {error}"
        raise ProtocolError(reason) from error
