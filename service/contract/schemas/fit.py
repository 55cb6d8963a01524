"""Request and answer of POST /v1/fit."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Raw, UnsetType, field

from service.contract.schemas.calibrations import BasesAnswer, ClusterBasis, ClusterChoice
from service.contract.schemas.fields import (
    Answer,
    FitConfidence,
    GpuMemory,
    GpuName,
    HeadWord,
    JsonObject,
    ModelText,
    Name,
    NumLabels,
    RecordingDocument,
    Strict,
)
from service.contract.schemas.layouts import LayoutRequest
from service.contract.schemas.methods import InputTokensAnswer
from service.contract.schemas.models import (
    GgufDocument,
    HubFile,
    HubId,
    HubRevision,
    Origin,
    SafetensorsHeader,
    SafetensorsIndex,
)
from service.contract.schemas.remedies import RemedyAnswer, RemedySearchAnswer, RuleAnswer
from service.contract.schemas.serving import ServingAnswer
from service.contract.schemas.workload import WorkloadRequest
from service.estimator.values.result import Basis, Bound
from service.planner.fit.parts import FitPart


class InlineModel(Strict, frozen=True, kw_only=True):
    """A model that is not stored, or a named one with another head: one of the first seven, its
    head where the config does not say it, and what its files hold.
    """

    hf_config: Annotated[
        JsonObject | UnsetType, Meta(description="A Hugging Face config.json.")
    ] = UNSET
    architecture: Annotated[
        JsonObject | UnsetType, Meta(description="Our own spec, as GET /v1/models/{name} shows it.")
    ] = UNSET
    num_parameters: Annotated[
        Annotated[int, Meta(ge=1, le=10**15)] | UnsetType,
        Meta(description="A number of parameters and nothing else."),
    ] = UNSET
    name: Annotated[
        ModelText | UnsetType,
        Meta(description="Stored or catalogue name, for a model with another `head`."),
    ] = UNSET
    gguf: GgufDocument | UnsetType = UNSET
    recording: RecordingDocument | UnsetType = UNSET
    hub: HubId | UnsetType = UNSET
    revision: HubRevision | UnsetType = UNSET
    file: HubFile | UnsetType = UNSET
    head: HeadWord | UnsetType = UNSET
    num_labels: NumLabels | UnsetType = UNSET
    safetensors_index: SafetensorsIndex | UnsetType = UNSET
    safetensors_header: SafetensorsHeader | UnsetType = UNSET
    origin: Origin | UnsetType = UNSET


CUSTOM_GPU = "custom"  # what answers call a GPU that was described by its memory


class GpuByMemory(Strict, frozen=True, kw_only=True):
    """Any GPU, by what a process can allocate on it; there is no time estimate then."""

    memory_bytes: GpuMemory


ModelReference = ModelText | InlineModel
GpuReference = GpuName | GpuByMemory


_INCLUDE = (
    "What to work out beside the verdict, the bytes and their intervals; everything where this is "
    "not said. What is left out is empty or null: `components` are `per_gpu.components` and "
    "`checkpoint_bytes`; `instants` are `per_gpu.instants` and `per_gpu.phases`. Without "
    "`replay` reserved bytes are a ratio of the allocated ones that was measured, as in a batch, "
    "wherever no replay could turn the verdict. "
    "`remedies` come with a replay, and not at all where `remedies` is false."
)


class FitRequest(Strict, frozen=True, kw_only=True):
    """A question: does this workload fit on this GPU in this layout."""

    model: Annotated[
        ModelReference, Meta(description="Stored or catalogue name, or an inline model.")
    ]
    workload: Annotated[WorkloadRequest, Meta(description="What runs.")]
    gpu: Annotated[GpuReference, Meta(description="Name or alias of a GPU, or its memory.")]
    layout: Annotated[
        LayoutRequest | UnsetType, Meta(description="How it is spread; default one GPU.")
    ] = UNSET
    cluster: ClusterChoice = UNSET
    confidence: FitConfidence = 0.95
    remedies: Annotated[
        bool,
        Meta(
            description=(
                "Whether to look for what would help where it does not fit, which takes longer "
                "than the answer itself."
            )
        ),
    ] = True
    include: Annotated[list[FitPart] | UnsetType, Meta(description=_INCLUDE)] = UNSET


class FitEnvelope(Strict, frozen=True, kw_only=True):
    """The same with pieces that are not read yet: equal ones of many questions are read once."""

    model: Raw
    workload: Raw
    gpu: Raw
    layout: Raw = Raw(b"{}")
    cluster: Name | UnsetType = UNSET
    confidence: FitConfidence = 0.95
    remedies: bool = True
    include: list[FitPart] | UnsetType = UNSET


class IntervalsAnswer(Answer, frozen=True, kw_only=True):
    """Bounds of the three quantities in bytes: low and high, at `level`."""

    level: Annotated[float, Meta(examples=[0.95])]
    allocated: tuple[int, int]
    reserved: tuple[int, int]
    device: tuple[int, int]


class WorstRankAnswer(Answer, frozen=True, kw_only=True):
    """The rank that decides."""

    pipeline_stage: int


class ComponentAnswer(Answer, frozen=True, kw_only=True):
    """One part of the bytes at the peak instant of the worst rank; the parts sum exactly to
    `device_bytes`.
    """

    name: Annotated[str, Meta(examples=["weights"])]
    bytes: int
    basis: Basis
    formula: Annotated[str, Meta(description="The formula, with its numbers.")]
    source: Annotated[str, Meta(description="Where the formula comes from.")]


class InstantAnswer(Answer, frozen=True, kw_only=True):
    """The highest allocated bytes during one part of the step."""

    name: Annotated[str, Meta(examples=["backward"])]
    allocated_bytes: int
    parts: Annotated[
        dict[str, int],
        Meta(description="Bytes by component; their sum is `allocated_bytes`. Empty of phases."),
    ] = field(default_factory=dict)


class StageAnswer(Answer, frozen=True, kw_only=True):
    """One pipeline stage."""

    pipeline_stage: int
    allocated_bytes: int
    steady_bytes: int
    layers: Annotated[list[int], Meta(description="Layers of each chunk, where it trains some.")]
    micro_batches_in_flight: Annotated[list[int], Meta(description="Micro-batches of each chunk.")]


class PerGpuAnswer(Answer, frozen=True, kw_only=True):
    """Memory of the worst rank."""

    allocated_bytes: int
    reserved_bytes: int
    device_bytes: int
    steady_bytes: int
    intervals: IntervalsAnswer
    peak_instant: str
    worst_rank: WorstRankAnswer
    components: list[ComponentAnswer]
    instants: list[InstantAnswer]
    phases: list[InstantAnswer]
    stages: list[StageAnswer]


class CheckpointAnswer(Answer, frozen=True, kw_only=True):
    """A checkpoint on disk."""

    weights: int
    optimizer: int
    total: int
    save_total_limit: int | None
    disk: int | None


class ThroughputAnswer(Answer, frozen=True, kw_only=True):
    """How long one optimizer step takes, or one decode step with the full cache, and why."""

    step_time_s: float
    tokens_per_second: float
    tokens_per_second_per_gpu: float
    mfu: float
    hours_for_tokens: float | None
    prefill_time_s: float | None
    host_time_s: float
    gpu_time_s: float
    bound: Bound
    bound_reason: str
    basis: str


Replayed = Literal["steps", "generations"]


class FitAnswer(Answer, frozen=True, kw_only=True):
    """The verdict, and everything it rests on."""

    verdict: Annotated[
        str, Meta(description="`fits`, `tight` or `does_not_fit`.", examples=["fits"])
    ]
    basis: Annotated[
        str,
        Meta(
            description="`analytic`, `calibrated` or `measured`: of the allocated bytes.",
            examples=["analytic"],
        ),
    ]
    bases: BasesAnswer
    cluster: ClusterBasis = UNSET
    replayed: Annotated[
        Replayed | None,
        Meta(
            description=(
                "What the caching allocator was replayed over: loading and two optimizer `steps`, "
                "or loading and two `generations` of a replica. Null where reserved bytes are a "
                "measured ratio of the allocated ones, or an engine's own budget: nothing is "
                "replayed there, or no replay could turn the verdict of an answer that did not "
                "ask for one."
            )
        ),
    ]
    num_gpus: int
    per_gpu: PerGpuAnswer
    capacity_bytes: int
    usable_bytes: int
    headroom_bytes: int
    deficit_bytes: int
    host_bytes_per_node: int
    nvme_bytes_per_node: int
    checkpoint_bytes: CheckpointAnswer | None
    serving: ServingAnswer | None
    rollout: ServingAnswer | None
    throughput: ThroughputAnswer | None
    rules_of_thumb: list[RuleAnswer]
    remedies: list[RemedyAnswer]
    remedy_search: Annotated[
        RemedySearchAnswer | None,
        Meta(description="Null where it fits, or remedies were not looked for."),
    ]
    inputs: Annotated[
        list[InputTokensAnswer],
        Meta(description="What images, videos and audio become; empty where none are named."),
    ]
    assumptions: list[str]
    warnings: list[str]
    calibration: str | None
    calibration_level: Annotated[
        str,
        Meta(
            description="Whose measurements it rests on: of this `point`, of this `key` (another "
            "size of it), of its `family`, "
            "of every family (`global`), or `none`.",
            examples=["none"],
        ),
    ]
    calibration_measurements: Annotated[int, Meta(description="How many measurements that are.")]
