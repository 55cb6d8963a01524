"""Engines that shard a trainer's states, and over how many GPUs."""

from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from service.formats.launches.sources.documents import flatten
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.trainers.accelerate_config import join_starter, read_accelerate
from service.formats.launches.trainers.deepspeed_config import (
    DeepSpeedPlan,
    find_shipped,
    read_deepspeed,
)
from service.formats.launches.trainers.environment import ask_replicas
from service.formats.launches.trainers.fsdp_config import (
    apply_words,
    override_checkpointing,
    read_arguments,
    read_fsdp,
)
from service.formats.launches.trainers.launch_files import LaunchFiles, sort_files
from service.formats.launches.trainers.processes import (
    Processes,
    account_starters,
    count_processes,
)
from service.formats.launches.trainers.setup import TRANSFORMERS, TrainerSetup
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings, is_unset, make_default

_DEGREES = {
    "tensor": ("tp_size", "tensor_parallel_size"),
    "context": ("cp_size", "sp_size", "context_parallel_size", "sequence_parallel_degree"),
}
_WHY = "how many GPUs it is started on is not said"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """DeepSpeed's plan, or FSDP, or neither.

    ``setup`` is the trainer's, with what the engine's configuration says for it; ``ranks`` is None
    where nobody says on how many GPUs it runs.
    """

    setup: TrainerSetup
    deepspeed: DeepSpeedPlan | None = None
    is_fsdp: bool = False
    ranks: int | None = None


def read_sharding(setup: TrainerSetup, draft: Draft, handed_in: HandedIn) -> Engine:
    """Set the layout of a trainer; return what shards it.

    Raises LaunchFormatError for contradictions between the files.
    """
    files = sort_files(handed_in)
    joined = join_starter(handed_in, files.accelerate, draft)
    processes = count_processes(handed_in, joined, setup)
    account_starters(handed_in, draft)
    degrees = Settings()
    config, fsdp = None, None
    if joined is not None:
        accelerate = read_accelerate(joined, setup.training, draft)
        config, fsdp, degrees = accelerate.deepspeed, accelerate.fsdp, accelerate.degrees
    config = _find_deepspeed(setup.training, files, handed_in, draft, config)
    fsdp = _find_fsdp(setup.training, files, handed_in, draft, fsdp)
    for names in _DEGREES.values():
        for name in names:
            _hand_over(setup.training, name, degrees)
    for name in ("dp_shard_size", "dp_replicate_size"):
        _hand_over(setup.training, name, degrees)
    if config is not None and fsdp is not None:
        message = "the launch has a configuration of DeepSpeed and one of FSDP; leave one out"
        raise LaunchFormatError(message)
    engine = Engine(setup=setup)
    if config is not None:
        plan = read_deepspeed(config, draft)
        engine = Engine(setup=_fill(setup, plan.filled, draft), deepspeed=plan)
    elif fsdp is not None:
        filled = read_fsdp(fsdp, draft, _take_version(fsdp), processes)
        override_checkpointing(filled, setup.training, draft)
        shards = draft.get("layout.sharding") != "ddp"
        engine = Engine(setup=_override(setup, filled), is_fsdp=shards)
    # A file alone, in which nothing is shared, says nothing of more GPUs than the one asked about.
    is_lone = handed_in.allocation is None and handed_in.command is None
    is_lone = is_lone and engine.deepspeed is None and not engine.is_fsdp
    if engine.deepspeed is None:
        ask_replicas(processes, handed_in, draft, setup)
    ranks = _put_degrees(engine, degrees, processes, draft, is_lone=is_lone)
    return replace(engine, ranks=ranks)


def _find_deepspeed(
    training: Settings,
    files: LaunchFiles,
    handed_in: HandedIn,
    draft: Draft,
    config: Settings | None,
) -> Settings | None:
    """Return DeepSpeed's configuration: a file, a project's argument, or one in place."""
    inline = training.take_group("deepspeed")
    path = training.take("deepspeed", "deepspeed_config")
    if path is None and config is not None:
        path = config.take("deepspeed_config_file")
    if len(inline):
        return inline
    if isinstance(path, Setting) and isinstance(path.value, dict):
        return flatten(path.value, path.where)
    if path is None:
        return config if config is not None else files.deepspeed
    if str(path.value).casefold() == "true":
        raise path.refuse("DeepSpeed's JSON, as transformers' Trainer does; say the JSON")
    name = path.as_text()
    document = handed_in.find_document(name) or files.deepspeed
    if document is not None:
        draft.note(path, "DeepSpeed's configuration, which was handed in")
        return document
    shipped = find_shipped(PurePosixPath(name).name)
    if shipped is not None:
        draft.note(path, "a configuration that comes with the project, by its name")
        return shipped
    draft.note(path, "DeepSpeed's configuration, which was not handed in")
    draft.ask("layout.zero_stage", f"{name} was not handed in", (2, 3, 1))
    source = f"{name} was not handed in"
    return Settings([make_default("zero_optimization.stage", 2, source)])


def _find_fsdp(
    training: Settings,
    files: LaunchFiles,
    handed_in: HandedIn,
    draft: Draft,
    settings: Settings | None,
) -> Settings | None:
    """Return FSDP's settings, None where it does not shard."""
    inline = training.take_group("fsdp_config")
    path = training.take("fsdp_config")
    own_version = training.take("fsdp_version")
    document = files.fsdp
    if path is not None and isinstance(path.value, dict):
        inline = flatten(path.value, path.where)
    elif path is not None:
        document = handed_in.find_document(path.as_text())
        if document is None:
            raise path.refuse("a file that was handed in too, or FSDP's settings")
    strategy_words = training.take("fsdp")
    is_on = strategy_words is not None and not _is_off(strategy_words)
    if settings is None and not is_on and own_version is None:
        for setting in inline.take_all().values():
            draft.drop(setting)
        return None
    merged = read_arguments(inline.merge(document or Settings()), draft)
    if strategy_words is not None and is_on:
        apply_words(strategy_words, merged)
    if settings is not None:
        merged = merged.merge(settings)
    if own_version is not None:
        merged.add("version", own_version)
    return merged


def _is_off(strategy_words: Setting) -> bool:
    return is_unset(strategy_words) or str(strategy_words.value).casefold() == "false"


def _take_version(settings: Settings) -> Setting:
    source = f"transformers {TRANSFORMERS}, training_args.py"
    return settings.take("version") or make_default("fsdp_config.version", 2, source)


def _hand_over(source: Settings, name: str, target: Settings) -> None:
    setting = source.take(name)
    if setting is not None:
        target.add(name, setting)


def _override(setup: TrainerSetup, filled: Settings) -> TrainerSetup:
    """Return a trainer with these arguments in place of its own."""
    if not len(filled):
        return setup
    argument = Settings(dict(setup.training.list_left()))
    setup.training.take_all()
    return replace(setup, training=filled.merge(argument))


def _fill(setup: TrainerSetup, filled: Settings, draft: Draft) -> TrainerSetup:
    """Return a trainer with DeepSpeed's numbers for its arguments.

    Raises LaunchFormatError where they differ, as transformers does; DeepSpeed's optimizer wins.
    """
    for name, setting in filled.take_all().items():
        argument = setup.training.peek(name)
        if argument is None:
            continue
        if name == "optim":
            draft.drop(argument)
        elif argument.as_float() != setting.as_float():
            message = (
                f"{setting.key} is {setting.value} beside {argument.key} {argument.value} "
                f"({argument.where}); say "
                'the same, or "auto"'
            )
            raise LaunchFormatError(message, where=setting.where)
        else:
            draft.note(argument, f"the same as {setting.key}")
    return _override(setup, filled)


def _put_degrees(
    engine: Engine, degrees: Settings, processes: Processes, draft: Draft, *, is_lone: bool
) -> int | None:
    """Set how many GPUs share what; return the data-parallel ranks."""
    inner = 1
    for kind, names in _DEGREES.items():
        setting = degrees.take(*names)
        if setting is not None:
            inner *= setting.as_int(minimum=1)
            draft.put(f"layout.{kind}_parallel", setting.as_int(minimum=1), setting)
            if setting.key.casefold().endswith("sp_size") and setting.as_int() > 1:
                draft.put("layout.context_parallel_method", "ulysses")
    ranks = _read_ranks(degrees, draft)
    if ranks is None and processes.count is None:
        ranks = _count_by_batch(engine)
    if processes.count is not None:
        if processes.count % inner or ranks not in {None, processes.count // inner}:
            wanted = f"{inner} (tensor x context)" if ranks is None else str(ranks * inner)
            setting = processes.settings[0] if processes.settings else None
            message = f"{processes.count} processes, but the degrees of parallelism need {wanted}"
            raise LaunchFormatError(message, where=None if setting is None else setting.where)
        ranks = processes.count // inner
    if ranks is None:
        _ask_ranks(engine, processes, draft, is_lone=is_lone)
        return None
    draft.put("layout.data_parallel", ranks, *processes.settings)
    if processes.per_node is not None:
        draft.put("layout.gpus_per_node", processes.per_node)
    return ranks


def _ask_ranks(engine: Engine, processes: Processes, draft: Draft, *, is_lone: bool) -> None:
    """Ask how many GPUs there are where anything tells of several."""
    # Replicas hold buckets that a GPU alone has not, and gather what others keep.
    starts = processes.is_started or engine.setup.uses_all_gpus
    if engine.deepspeed is not None or engine.is_fsdp or starts:
        draft.ask("layout.data_parallel", _WHY, (1, 2, 4, 8), is_assumed=is_lone)
        if is_lone:
            draft.put("layout.data_parallel", 1, make_default("data_parallel", 1, _WHY))


def _read_ranks(degrees: Settings, draft: Draft) -> int | None:
    """Return the data-parallel ranks of a mesh, None without."""
    shard, replicate = degrees.take("dp_shard_size"), degrees.take("dp_replicate_size")
    if shard is None or str(shard.value) == "-1":
        return None
    size = shard.as_int(minimum=1)
    copies = 1 if replicate is None else replicate.as_int(minimum=1)
    if copies > 1 and replicate is not None:
        draft.put("layout.shard_size", size, shard, replicate)
    else:
        draft.note(shard, "ranks that share the states")
    return size * copies


def _count_by_batch(engine: Engine) -> int | None:
    """Return the ranks that DeepSpeed's batch needs, None without one."""
    plan = engine.deepspeed
    if plan is None or plan.total is None:
        return None
    training = engine.setup.training
    micro = training.peek("per_device_train_batch_size")
    steps = training.peek("gradient_accumulation_steps")
    if micro is None or steps is None:
        return None
    each = micro.as_int(minimum=1) * steps.as_int(minimum=1)
    total = plan.total.as_int(minimum=1)
    if total % each:
        raise plan.total.refuse(
            f"a multiple of {each}: micro batch x accumulation x ranks ({micro.key} {micro.value}, "
            f"{steps.key} {steps.value})"
        )
    return total // each


def check_total(engine: Engine, draft: Draft) -> None:
    """Refuse a batch of all ranks that its parts do not make."""
    plan, ranks = engine.deepspeed, engine.ranks
    if plan is None or plan.total is None or ranks is None:
        return
    micro = draft.get("workload.micro_batch_size")
    steps = draft.get("workload.gradient_accumulation_steps")
    if not isinstance(micro, int) or not isinstance(steps, int):
        return
    product = micro * steps * ranks
    if plan.total.as_int(minimum=1) != product:
        raise plan.total.refuse(
            f"{product}, which is micro batch {micro} x accumulation {steps} x {ranks} ranks"
        )
    draft.note(plan.total, "micro batch x accumulation x ranks")
