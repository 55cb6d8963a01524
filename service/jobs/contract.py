"""What the service, the worker and its probe process say to each other.

The payload of a bell is ``(job id, attempt)`` and nothing more. The probe gets one ``ProbeRequest`` as JSON on stdin and
answers with JSON lines on stdout: a ``Planned``, any number of ``Progress`` and ``Sample``, then one ``ProbeResult`` or
``ProbeFailure``.
"""

from enum import StrEnum
from uuid import UUID

import msgspec

from service.base.typed import converted
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload
from service.jobs.artifacts import ArtifactName, KeptFile
from service.jobs.host import Host


class ProbeDevice(StrEnum):
    """Where a probe runs: a real CPU, fake tensors, or a real GPU."""

    CPU = "cpu"
    TRACE = "trace"
    CUDA = "cuda"


class FailureKind(StrEnum):
    """Why a probe will never answer this request: asking again would not help."""

    UNSUPPORTED = "unsupported"
    DOES_NOT_FIT_HOST = "does-not-fit-host"
    NOT_AVAILABLE_YET = "not-available-yet"
    INVALID_REQUEST = "invalid-request"
    PROBE_ERROR = "probe-error"


class _Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value on a wire of ours: unknown fields are refused."""


class JobPayload(_Message, frozen=True, kw_only=True):
    """What travels through Redis: which job, and the attempt that the ringer saw (the claim expects it)."""

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
    """A model as it was resolved when the job was asked for.

    ``architecture`` is our own spec (``Architecture.describe()``); ``hf_config`` the config.json it came from, without which
    no real model can be built. ``name`` and ``revision`` are those of a stored or catalogue model.
    """

    architecture: dict[str, object]
    hf_config: dict[str, object] | None = None
    name: str | None = None
    revision: int | None = None


class Priority(StrEnum):
    """Which queued job goes first."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class MeasureRequest(_Message, frozen=True, kw_only=True):
    """What was asked, resolved, as the job's row keeps it.

    ``gpu`` names the one the answer is wanted for, ``rank`` the one of the layout that is run: the first holds most.
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

    def probe_request(self, *, deadline_s: float, files: dict[ArtifactName, int] | None = None) -> "ProbeRequest":
        """Return the part that the probe needs; ``files`` are open for what it keeps beside its numbers."""
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


class ProbeRequest(_Message, frozen=True, kw_only=True):
    """One measurement as the probe process sees it; ``deadline_s`` is the parent's, told so that a plan can be shorter.

    ``files`` has a descriptor for each artifact that was asked for: the probe inherits it and writes there, gzipped.
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
    """``done`` of ``total`` steps of the whole plan, as a ``fraction`` of 0 to 1, and the latest numbers in words."""

    phase: str
    done: int
    total: int
    fraction: float
    reading: str = ""


class PlannedRun(_Message, frozen=True, kw_only=True):
    """One model that is going to be run, why, and how long that should take; sizes as in ``ProbeReading``."""

    num_layers: int
    micro_batch_size: int
    sequence_length: int
    why: str
    expected_s: float
    output_tokens: int = 0


class Planned(_Message, frozen=True, kw_only=True, tag_field="type", tag="plan"):
    """What is going to be run, told before anything is; ``expected_s`` is for all of it, on this ``host``."""

    runs: tuple[PlannedRun, ...]
    expected_s: float
    notes: tuple[str, ...] = ()
    host: Host | None = None


class Sample(_Message, frozen=True, kw_only=True, tag_field="type", tag="sample"):
    """A reading of one counter ``t_s`` seconds after the probe began; ``kind`` as in ``process_rss`` or ``allocated``."""

    t_s: float
    kind: str
    bytes: int


class InstantReading(_Message, frozen=True, kw_only=True):
    """The highest bytes during one instant: live tensors, and what the allocator had handed out where it can say."""

    name: str
    allocated_bytes: int
    allocator_bytes: int | None = None


class StepTime(_Message, frozen=True, kw_only=True):
    """Seconds of one step."""

    median: float
    p95: float


class Peaks(_Message, frozen=True, kw_only=True):
    """The highest readings, for the model that was asked; ``None`` where this device has no such number."""

    allocated_bytes: int
    reserved_bytes: int | None = None
    device_bytes: int | None = None
    device_total_used_bytes: int | None = None
    process_rss_bytes: int | None = None
    out_of_memory: bool = False


class HeldTensors(_Message, frozen=True, kw_only=True):
    """Tensors of one kind and shape that were alive at once: how many, their bytes in all, and what made them where."""

    kind: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    made_in: str
    count: int
    bytes: int


class AtPeak(_Message, frozen=True, kw_only=True):
    """What filled a run at its peak: the stretch it fell in, bytes by kind (their sum is ``bytes``), and the largest parts."""

    stretch: str
    bytes: int
    by_kind: dict[str, int]
    largest: tuple[HeldTensors, ...]


class ProbeReading(_Message, frozen=True, kw_only=True):
    """One model that was really run.

    ``micro_batch_size`` counts sequences and ``sequence_length`` all tokens of one (serving: prompt and output; of these
    ``output_tokens`` were decoded). ``at_peak`` is there where every tensor was followed.
    """

    num_layers: int
    micro_batch_size: int
    sequence_length: int
    instants: tuple[InstantReading, ...]
    output_tokens: int = 0
    steady_bytes: int | None = None
    process_rss_bytes: int | None = None
    step_time_s: StepTime | None = None
    out_of_memory: bool = False
    at_peak: AtPeak | None = None
    layers: tuple[int, ...] = ()
    """Places in the asked model of the layers that were kept."""
    reserved_bytes: int | None = None
    device_bytes: int | None = None
    context_bytes: int | None = None
    """What the GPU holds for the process before its first tensor."""


class ProbeResult(_Message, frozen=True, kw_only=True, tag_field="type", tag="result"):
    """What was found.

    ``peaks`` and ``instants`` are for the model that was asked; ``extrapolated`` says whether from the slices in ``probes``.
    ``transferable``: the kernels were those that CUDA would choose, so allocated bytes may correct a GPU's; else ``notes``
    say why not.
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
    """The probe refuses: what is wrong and what would be right. The job fails at once; a probe that dies is run again."""

    kind: FailureKind
    message: str


ProbeNews = Progress | Sample | Planned
"""What a probe says before its answer."""
ProbeLine = ProbeNews | ProbeResult | ProbeFailure


class ProtocolError(ValueError):
    """Bytes on a wire of ours that are no message."""


def task_of(workload: Workload) -> Task:
    """Return the tagged form of a workload."""
    return TrainTask(workload=workload) if isinstance(workload, TrainWorkload) else ServeTask(workload=workload)


def document_of(message: MeasureRequest) -> dict[str, object]:
    """Return a request as plain JSON values, for the job's row."""
    document: dict[str, object] = msgspec.to_builtins(message)
    # Workers of the version before refuse a word that they do not know, so it is there for those who asked alone.
    if not message.artifacts:
        del document["artifacts"]
    return document


def parse_measure_request(document: object) -> MeasureRequest:
    """Read back what ``document_of`` made."""
    try:
        return converted(document, MeasureRequest)
    except msgspec.ValidationError as error:
        reason = f"not a stored measurement request: {error}"
        raise ProtocolError(reason) from error
