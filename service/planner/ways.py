"""The ways to train that a search tries: whose code runs, who shards, and which degrees it splits by."""

from dataclasses import dataclass
from math import gcd

from service.estimator.architecture import Architecture
from service.estimator.layout import Sharding
from service.estimator.workload import (
    Checkpointing,
    Framework,
    Offload,
    OffloadTarget,
    Quantization,
    ServeWorkload,
    TrainWorkload,
)
from service.planner.moves import SPLITTING
from service.planner.space import OFFLOADING, QUANTIZING, Question

TENSOR, PIPELINE, CONTEXT, EXPERT = "tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel"
DEGREES = (TENSOR, PIPELINE, CONTEXT, EXPERT)
_EACH_LAYER = (Checkpointing.NONE, Checkpointing.FULL)
_EACH_OPERATION = (Checkpointing.NONE, Checkpointing.SELECTIVE, Checkpointing.FULL)
_CPU = OffloadTarget.CPU
_NOTHING_MOVED = Offload()
_STATES_MOVED = Offload(optimizer=_CPU)
_QUANTIZED = (Quantization.FP8, Quantization.AWQ_INT4)
_ALL_MOVED = Offload(optimizer=_CPU, parameters=_CPU)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to train, or to serve: its zero stages, the degrees that it splits by, what it recomputes, what it moves away.

    ``shares_heads``: more tensor-parallel ranks than key and value heads may share them.
    """

    name: str
    framework: Framework | None = None
    sharding: Sharding = Sharding.DDP
    stages: tuple[int, ...] = (0,)
    splits: frozenset[str] = frozenset()
    checkpointings: tuple[Checkpointing, ...] = _EACH_LAYER
    shares_heads: bool = False
    splits_norms: bool = False
    """Tensor parallelism with ``sequence_parallel``, which costs no time and saves memory."""


WAYS = (
    Way(name="ddp", framework=Framework.TRANSFORMERS),
    Way(name="deepspeed", framework=Framework.TRANSFORMERS, sharding=Sharding.DEEPSPEED, stages=(1, 2, 3)),
    Way(
        name="fsdp2",
        framework=Framework.TRANSFORMERS,
        sharding=Sharding.FSDP2,
        stages=(3,),
        splits=frozenset({TENSOR}),
    ),
    Way(
        name="torchtitan",
        framework=Framework.TORCHTITAN,
        sharding=Sharding.FSDP2,
        stages=(3,),
        splits=frozenset({CONTEXT}),
        checkpointings=_EACH_OPERATION,
    ),
    Way(
        name="megatron",
        framework=Framework.MEGATRON,
        sharding=Sharding.MEGATRON,
        stages=(0, 1),
        splits=frozenset(DEGREES),
        checkpointings=_EACH_OPERATION,
        shares_heads=True,
        splits_norms=True,
    ),
)
GROUPS = {"transformers": frozenset({"ddp", "deepspeed", "fsdp2"})}
"""Names that stand for several ways."""
_PLAIN = {Framework.TRANSFORMERS: "ddp", Framework.TORCHTITAN: "torchtitan", Framework.MEGATRON: "megatron"}
"""What one rank runs, which has nobody to share with."""


def ways(question: Question) -> tuple[Way, ...]:
    """Return the ways that a question leaves; what it fixes itself, if none of ours does that."""
    workload = question.workload
    if isinstance(workload, ServeWorkload):
        splits = frozenset({TENSOR, PIPELINE}) if workload.engine in SPLITTING else frozenset[str]()
        return (Way(name=workload.engine.value, splits=splits, shares_heads=True),)
    left = tuple(way for way in WAYS if _is_asked(way, question, workload))
    return left or (_as_asked(question, workload),)


def offloads(way: Way, stage: int, question: Question) -> tuple[Offload, ...]:
    """Return what may live off the GPU: nothing else than asked unless it is allowed."""
    workload = question.workload
    if isinstance(workload, ServeWorkload):
        return (_NOTHING_MOVED,)
    if OFFLOADING not in question.allow or not question.is_open("offload"):
        return (workload.offload,)
    if way.name == "deepspeed":
        return (_NOTHING_MOVED, _STATES_MOVED, *((_ALL_MOVED,) if stage == way.stages[-1] else ()))
    return (_NOTHING_MOVED, _ALL_MOVED) if way.name == "fsdp2" else (_NOTHING_MOVED,)


def quantizations(model: Architecture, question: Question) -> tuple[Quantization | None, ...]:
    """Return the formats that weights may be served in: as asked, and in 8 and 4 bits where that is allowed."""
    workload = question.workload
    if not isinstance(workload, ServeWorkload):
        return (None,)
    open_ = question.is_open("quantization") and question.is_open("weight_dtype") and model.quantization is None
    return (workload.quantization, *(_QUANTIZED if QUANTIZING in question.allow and open_ else ()))


def needs_no_partner(way: Way, question: Question) -> bool:
    """Whether one rank would run this way: with nobody to share with, all that share are alike."""
    if way.framework is None or not question.is_open("sharding") or not question.is_open("zero_stage"):
        return True
    return way.name == _PLAIN[way.framework] or OFFLOADING in question.allow


def _is_asked(way: Way, question: Question, workload: TrainWorkload) -> bool:
    if question.frameworks is not None and way.name not in expanded(question.frameworks):
        return False
    asked = (
        ("framework", way.framework is workload.framework),
        ("sharding", way.sharding is question.layout.sharding),
        ("zero_stage", question.layout.zero_stage in way.stages),
    )
    return all(held or question.is_open(name) for name, held in asked)


def expanded(names: frozenset[str]) -> frozenset[str]:
    """Return the names of ways that a request's words stand for."""
    return frozenset().union(*(GROUPS.get(name, frozenset({name})) for name in names))


def _as_asked(question: Question, workload: TrainWorkload) -> Way:
    """Return the request's own way, whatever comes of it: what cannot run is refused in words."""
    layout = question.layout
    selects = workload.framework is not Framework.TRANSFORMERS
    return Way(
        name=layout.sharding.value,
        framework=workload.framework,
        sharding=layout.sharding,
        stages=(layout.zero_stage,),
        checkpointings=_EACH_OPERATION if selects else _EACH_LAYER,
    )


def divisors(*numbers: int) -> tuple[int, ...]:
    """Return the common divisors, ascending."""
    common = gcd(*numbers)
    return tuple(number for number in range(1, common + 1) if common % number == 0)
