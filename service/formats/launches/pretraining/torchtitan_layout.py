"""torchtitan's degrees of parallelism and pipelines as a layout.

torchtitan ``distributed/parallel_dims.py``, ``distributed/pipeline_parallel.py``.
"""

from service.estimator.values.pipeline import ONE_CHUNK, PipelineSchedule
from service.estimator.values.units import ceil_div
from service.formats.launches.pretraining.mesh import Degrees, put_ranks
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.trainers.processes import Processes
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings, make_default

_DEGREES = {
    "tensor": "parallelism.tensor_parallel_degree",
    "pipeline": "parallelism.pipeline_parallel_degree",
    "context": "parallelism.context_parallel_degree",
}
_SHARD = "parallelism.data_parallel_shard_degree"
_REPLICATE = "parallelism.data_parallel_replicate_degree"
_SCHEDULES = {
    "1F1B": PipelineSchedule.ONE_F_ONE_B,
    "GPipe": PipelineSchedule.GPIPE,
    "Interleaved1F1B": PipelineSchedule.INTERLEAVED,
    "LoopedBFS": PipelineSchedule.LOOPED_BFS,
    "InterleavedZeroBubble": PipelineSchedule.INTERLEAVED_ZERO_BUBBLE,
    "ZBVZeroBubble": PipelineSchedule.ZBV,
    "DualPipeV": PipelineSchedule.DUAL_PIPE_V,
}
_ENDS = (
    "pipeline_parallel_first_stage_less_layers",
    "pipeline_parallel_last_stage_less_layers",
)
_UNITS = "torchtitan, pull request 1094 of 2025-08: embedding and head are units of their own"
_PLURAL = 2


def put_mesh(config: Settings, processes: Processes, draft: Draft, handed_in: HandedIn) -> int:
    """Set the degrees; return the data-parallel ranks.

    Raises LaunchFormatError where their product is not the number of processes.
    """
    model, settings = 1, list[Setting]()
    for kind, name in _DEGREES.items():
        setting = config.take(name)
        if setting is not None:
            model *= setting.as_int(minimum=1)
            draft.put(f"layout.{kind}_parallel", setting.as_int(minimum=1), setting)
            settings.append(setting)
    shard, replicate = config.take(_SHARD), config.take(_REPLICATE)
    copies = 1 if replicate is None else replicate.as_int(minimum=1)
    open_shard = shard is None or str(shard.value) == "-1"
    degrees = Degrees(model=model, settings=tuple(settings))
    if shard is None or open_shard:
        ranks = _put_open(degrees, copies, processes, draft, handed_in)
    else:
        ranks = shard.as_int(minimum=1) * copies
        _put_stated(ranks, degrees, processes, draft, shard)
    if replicate is not None:
        draft.note(replicate, "copies of the shards")
    if shard is not None and open_shard:
        draft.note(shard, "all ranks that are left")
    if copies > 1 and ranks % copies == 0:
        draft.put("layout.shard_size", ranks // copies)
    return ranks


def _put_open(
    degrees: Degrees, copies: int, processes: Processes, draft: Draft, handed_in: HandedIn
) -> int:
    """Set the ranks that the processes leave; the copies must divide them."""
    ranks = put_ranks(degrees, processes, None, draft, handed_in)
    if ranks % copies and processes.count is not None:
        message = f"{ranks} data-parallel ranks do not divide into {copies} copies"
        raise LaunchFormatError(message)
    return ranks


def _put_stated(
    ranks: int, degrees: Degrees, processes: Processes, draft: Draft, shard: Setting
) -> None:
    count = processes.count
    if count is not None and count != ranks * degrees.model:
        message = (
            f"{count} processes, but the degrees make {ranks * degrees.model}: replicate x shard "
            "x tensor x context x pipeline"
        )
        raise LaunchFormatError(message, where=shard.where)
    draft.put("layout.data_parallel", ranks, shard, *processes.settings)
    if processes.per_node is not None:
        draft.put("layout.gpus_per_node", processes.per_node)


def put_sharding(config: Settings, draft: Draft, *, is_alone: bool) -> None:
    """Set FSDP2 and its units, none on a GPU that is alone."""
    policy = config.take("parallelism.fsdp_reshard_after_forward")
    _account_inner(config, draft)
    if is_alone:
        if policy is not None:
            draft.drop(policy)
        return
    draft.put("layout.sharding", "fsdp2")
    draft.put("layout.zero_stage", 3)
    units = make_default("shard_embeddings_separately", value=True, source=_UNITS)
    draft.put("layout.shard_embeddings_separately", value=True)
    draft.note(units, "layout.shard_embeddings_separately = true")
    if policy is None:
        return
    word = policy.as_choice({"default": "default", "always": "always", "never": "never"})
    stages = draft.get("layout.pipeline_parallel")
    if word == "always" and isinstance(stages, int) and stages > 1:
        draft.ignore(policy, "a stage's weights are counted as gathered for the whole step")
    else:
        draft.put("layout.reshard_after_forward", word != "never", policy)


def _account_inner(config: Settings, draft: Draft) -> None:
    """Set or name what ranks inside of a copy share."""
    experts = config.take("parallelism.expert_parallel_degree")
    for name in ("expert_tensor_parallel_degree", "context_parallel_rotate_method"):
        setting = config.take(f"parallelism.{name}")
        if setting is not None:
            draft.note(setting, "how ranks share experts or keys")
    if experts is not None and experts.as_int(minimum=1) > 1:
        draft.put("layout.expert_parallel", experts.as_int(), experts)
    elif experts is not None:
        draft.note(experts, "experts are not spread")
    sequence = config.take("parallelism.enable_sequence_parallel")
    if sequence is not None and sequence.as_bool():
        draft.note(sequence, "norms are split over the tensor ranks")
    elif sequence is not None:
        draft.ignore(sequence, "norms are counted as split over the tensor ranks")


def put_pipeline(config: Settings, draft: Draft, num_layers: int | None) -> None:
    """Set schedule and split of a pipeline, if there is one."""
    schedule = config.take("parallelism.pipeline_parallel_schedule")
    ends = {name: config.take(f"parallelism.{name}") for name in _ENDS}
    per_stage = config.take("parallelism.pipeline_parallel_layers_per_stage")
    parts = config.take("parallelism.module_fqns_per_model_part")
    stages = draft.get("layout.pipeline_parallel")
    if not isinstance(stages, int) or stages == 1:
        for setting in (schedule, per_stage, parts, *ends.values()):
            if setting is not None:
                draft.drop(setting)
        return
    schedule = schedule or make_default("pipeline_parallel_schedule", "1F1B", "torchtitan")
    kind = schedule.as_choice(_SCHEDULES)
    draft.put("layout.pipeline_schedule", kind.value, schedule)
    if parts is not None:
        for setting in (per_stage, *ends.values()):
            if setting is not None:
                draft.note(setting, "the modules of each chunk are named")
        _put_parts(parts, draft, stages)
        return
    _put_split(ends, per_stage, kind, draft, num_layers)


def _put_split(
    ends: dict[str, Setting | None],
    per_stage: Setting | None,
    kind: PipelineSchedule,
    draft: Draft,
    num_layers: int | None,
) -> None:
    """Set how layers are spread over chunks."""
    less = {}
    for name, setting in ends.items():
        less[name] = 1 if setting is None else setting.as_int()
        if setting is not None:
            draft.put(f"layout.{name}", less[name], setting)
    if per_stage is None:
        if kind not in ONE_CHUNK:
            draft.put("layout.virtual_pipeline_stages", _PLURAL)
        return
    number = per_stage.as_int(minimum=1)
    draft.put("layout.pipeline_parallel_layers_per_stage", number, per_stage)
    stages = draft.get("layout.pipeline_parallel")
    if num_layers is None or not isinstance(stages, int):
        draft.ask("layout.virtual_pipeline_stages", "the chunks follow from the model's layers")
        return
    chunks = ceil_div(num_layers + sum(less.values()), number)
    draft.put("layout.virtual_pipeline_stages", max(1, chunks // stages))


def _put_parts(parts: Setting, draft: Draft, stages: int) -> None:
    """Set the layers of each chunk by the names of its modules."""
    if not isinstance(parts.value, list) or not all(isinstance(part, list) for part in parts.value):
        raise parts.refuse("a list of lists of names")
    counts = [sum(str(name).startswith("layers.") for name in part) for part in parts.value]
    if len(counts) % stages or not counts:
        raise parts.refuse(f"chunks for {stages} stages, not {len(counts)}")
    draft.put("layout.pipeline_layers", counts, parts)
    draft.put("layout.virtual_pipeline_stages", len(counts) // stages)
