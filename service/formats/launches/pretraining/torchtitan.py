"""torchtitan's configurations: Python, TOML, and options over both.

torchtitan 0.3.0 ``config/manager.py`` and ``trainer.py``, 0.2.2 ``config/job_config.py``.
"""

from dataclasses import replace
from pathlib import PurePosixPath

from service.formats.launches.pretraining.launch_command import count_ranks, read_program
from service.formats.launches.pretraining.mesh import put_batches
from service.formats.launches.pretraining.torchtitan_files import read_config_file, read_toml
from service.formats.launches.pretraining.torchtitan_keys import (
    DEBUG_MODELS,
    FLAVORS,
    PROGRAMS,
    SHIPPED,
    SOURCE,
    TOML_SOURCE,
    TORCHTITAN,
    WITHOUT_EFFECT,
    WITHOUT_TERM,
)
from service.formats.launches.pretraining.torchtitan_layout import (
    put_mesh,
    put_pipeline,
    put_sharding,
)
from service.formats.launches.pretraining.torchtitan_step import (
    Batch,
    put_step,
    read_batch,
)
from service.formats.launches.sources.argv import Grammar
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.trainers.processes import Processes
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Setting, Settings, make_default

_GPUS = "run_train.sh of torchtitan starts 8 processes unless NGPU says"
_ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_VARIABLES = {"CONFIG_FILE": "job.config_file", "CONFIG": "config", "MODULE": "module"}
_SUFFIXES = frozenset({".py", ".toml"})
_ALIASES = {
    "training.batch_size": "training.local_batch_size",
    "training.data_parallel_replicate_degree": "parallelism.data_parallel_replicate_degree",
    "training.data_parallel_shard_degree": "parallelism.data_parallel_shard_degree",
    "training.tensor_parallel_degree": "parallelism.tensor_parallel_degree",
    "training.compile": "compile.enable",
    "training.enable_compile": "compile.enable",
    "training.deterministic": "debug.deterministic",
    "training.seed": "debug.seed",
    "experimental.context_parallel_degree": "parallelism.context_parallel_degree",
    "experimental.pipeline_parallel_degree": "parallelism.pipeline_parallel_degree",
    "experimental.pipeline_parallel_schedule": "parallelism.pipeline_parallel_schedule",
    "experimental.pipeline_parallel_microbatches": "parallelism.num_pp_microbatches",
    "experimental.enable_async_tensor_parallel": "parallelism.enable_async_tensor_parallel",
    "optimizer.fused": "optimizer.is_fused",
    "optimizer.early_step_in_backward": "optimizer.early_step_in_backward",
    "parallelism.pipeline_parallel_microbatches": "parallelism.num_pp_microbatches",
}
"""Names of the first releases, by those of later ones."""


def read_torchtitan(handed_in: HandedIn, draft: Draft) -> None:
    """Read a configuration of torchtitan and the options over it."""
    config, environment, is_toml = _collect(handed_in, draft)
    if not len(config):
        message = (
            "holds no configuration of torchtitan; expected a TOML with [training], a Python file "
            "with Trainer.Config, or torchtitan.train with its options"
        )
        raise LaunchFormatError(message)
    draft.put("workload.task", "train")
    draft.put("workload.framework", "torchtitan")
    num_layers = _put_model(config, draft)
    processes = _count(handed_in, environment, draft)
    ranks = put_mesh(config, processes, draft, handed_in)
    is_alone = is_toml and processes.count == 1
    put_sharding(config, draft, is_alone=is_alone)
    put_pipeline(config, draft, num_layers)
    batch = read_batch(config, draft)
    _put_batch(batch, ranks, draft)
    put_step(config, draft, is_alone=is_alone, source=TOML_SOURCE if is_toml else SOURCE)
    allocator = environment.take(*_ALLOCATOR)
    if allocator is not None and "expandable_segments:true" in str(allocator.value).casefold():
        draft.put("workload.allocator", "expandable_segments", allocator)
    draft.account(environment, ("*",))
    _read_validation(config, draft)
    _account(config, draft)


def _collect(handed_in: HandedIn, draft: Draft) -> tuple[Settings, Settings, bool]:
    """Return the configuration, the environment, and whether it is TOML's."""
    options, environment = read_program(handed_in, PROGRAMS, Grammar())
    config = _normalize(handed_in.arguments.merge(options))
    for variable, key in _VARIABLES.items():
        setting = environment.take(variable)
        if setting is not None and "$" not in str(setting.value):
            config.add(key, setting)
    path, function = config.peek("job.config_file"), config.peek("config")
    name = None if function is None else function.as_text().rpartition(".")[2]
    module = config.peek("module")
    if module is not None:
        value = module.as_text().removesuffix(".config_registry").rpartition(".")[2]
        config.add("model.name", replace(module, value=value))
    config, has_toml = _read_files(config, handed_in, name, path, draft)
    is_toml = has_toml or path is not None
    for key in ("job.config_file", "config", "module"):
        setting = config.take(key)
        if setting is not None:
            draft.note(setting, "which configuration it is")
    return config, environment, is_toml


def _read_files(
    config: Settings, handed_in: HandedIn, name: str | None, path: Setting | None, draft: Draft
) -> tuple[Settings, bool]:
    """Return options over files, and whether one is TOML."""
    files = {
        file: text
        for file, text in handed_in.scripts.items()
        if PurePosixPath(file).suffix.casefold() in _SUFFIXES
    }
    for file, text in files.items():
        is_python = file.casefold().endswith(".py")
        read = read_config_file(file, text, name) if is_python else read_toml(file, text)
        config = config.merge(_normalize(read))
    for document in handed_in.documents.values():
        config = config.merge(_normalize(document))
    if not files and not handed_in.documents:
        config = _add_shipped(config, name, path, draft)
    for kind in sorted({kind for kind, _ in FLAVORS}):
        if name is not None and name.startswith(kind):
            config.add("model.name", make_default("model.name", kind, f"the name of {name}"))
    return config, any(file.casefold().endswith(".toml") for file in files)


def _add_shipped(
    config: Settings, name: str | None, path: Setting | None, draft: Draft
) -> Settings:
    """Return a configuration over one that comes with torchtitan, by its name."""
    stem = name or ("" if path is None else PurePosixPath(str(path.value)).stem)
    shipped = SHIPPED.get(stem)
    if shipped is not None:
        source = f"torchtitan {TORCHTITAN}, models/llama3/config_registry.py, {stem}"
        settings = [make_default(key, value, source) for key, value in shipped.items()]
        return config.merge(Settings(settings))
    if stem:
        draft.warn(f"{stem} was not handed in: what it configures is at torchtitan's defaults")
    return config


def _normalize(settings: Settings) -> Settings:
    """Return settings by the names of later releases, with underscores."""
    named: dict[str, Setting] = {}
    for name, setting in settings.take_all().items():
        plain, value = name.replace("-", "_"), setting.value
        section, _, key = plain.rpartition(".")
        if section and key.startswith("no_"):
            plain, value = f"{section}.{key[3:]}", False
        named.setdefault(_ALIASES.get(plain, plain), replace(setting, value=value))
    return Settings(named)


def _count(handed_in: HandedIn, environment: Settings, draft: Draft) -> Processes:
    """Return the processes; ``run_train.sh`` has its own number."""
    command = handed_in.command
    gpus, nodes = environment.take("NGPU"), environment.take("NNODE", "NNODES")
    if command is None or command.program != "run_train.sh":
        for setting in (gpus, nodes):
            if setting is not None:
                draft.note(setting, "of run_train.sh")
        return count_ranks(handed_in, draft)
    gpus = gpus or make_default("NGPU", 8, _GPUS)
    return Processes(count=gpus.as_int(minimum=1), settings=(gpus,))


def _put_model(config: Settings, draft: Draft) -> int | None:
    """Set the model by its flavour; return its layers if known."""
    name, flavor = config.take("model.name"), config.take("model.flavor")
    if flavor is None:
        if name is not None:
            draft.note(name, "the model's code, the size of which is not said")
        draft.ask("model", "the configuration names no model and flavor")
        return None
    kind = "" if name is None else str(name.value).removesuffix("_ft")
    size = str(flavor.value)
    for suffix in ("_flex_attn", "_varlen_attn", "_flex", "_varlen"):
        if size.endswith(suffix):
            draft.warn(f"flavor {size} has another attention: it is counted as sdpa")
            size = size.removesuffix(suffix)
    settings = (flavor,) if name is None else (flavor, name)
    named = FLAVORS.get((kind, size))
    if named is not None:
        draft.put("model", named, *settings)
        return None
    if size == "debugmodel" and kind in DEBUG_MODELS:
        debug = dict(DEBUG_MODELS[kind])
        draft.put("model", {"hf_config": debug})
        for setting in settings:
            draft.note(setting, "the model's config")
        layers = debug["num_hidden_layers"]
        return layers if isinstance(layers, int) else None
    for setting in settings:
        draft.note(setting, "a model that is not known here")
    draft.ask("model", f"flavor {size} of {kind or 'no named model'} is not known")
    return None


def _put_batch(batch: Batch, ranks: int, draft: Draft) -> None:
    """Set the micro-batches of a step: those of a pipeline, times accumulation."""
    if batch.total is None or str(batch.total.value) == "-1":
        if batch.total is not None:
            draft.note(batch.total, "the local batch of every rank")
        steps = batch.local // batch.micro
        draft.put("workload.gradient_accumulation_steps", steps, *batch.settings)
        return
    total = batch.total
    if batch.sequence_tokens is not None:
        total = replace(total, value=total.as_int(minimum=1) // batch.sequence_tokens)
    if total.as_int(minimum=1) % (batch.local * ranks):
        multiple = batch.local * ranks * (batch.sequence_tokens or 1)
        raise batch.total.refuse(
            f"a multiple of {multiple}: the local batch x {ranks} data-parallel ranks"
        )
    put_batches(batch.micro, total, ranks, draft)
    for setting in batch.settings:
        draft.note(setting, "micro-batches of a step")


def _read_validation(config: Settings, draft: Draft) -> None:
    """Name a validation, which runs batches of its own.

    There are eight sequences in one unless it is said (torchtitan, ``config/job_config.py``).
    """
    validates = config.take("validation.enable", "validator.enable")
    if validates is None or not validates.as_bool():
        if validates is not None:
            draft.drop(validates)
        return
    batch = config.take("validation.local_batch_size", "validator.local_batch_size")
    number = 8 if batch is None else batch.as_int(minimum=1)
    if batch is not None:
        draft.note(batch, "sequences of a validation, which is not counted")
    draft.ignore(validates, f"validations of {number} sequences without a graph are not counted")


def _account(config: Settings, draft: Draft) -> None:
    for name, reason in WITHOUT_TERM.items():
        setting = config.take(name)
        if setting is not None and setting.value not in (False, "", "False", "false", "sdpa", []):
            draft.ignore(setting, reason)
        elif setting is not None:
            draft.drop(setting)
    draft.account(config, WITHOUT_EFFECT)


READERS = {
    Launcher.TORCHTITAN: Reader(
        launcher=Launcher.TORCHTITAN,
        versions={"torchtitan": TORCHTITAN},
        read=read_torchtitan,
        programs=PROGRAMS,
        idle=WITHOUT_EFFECT,
        scripts=frozenset(
            {
                *("[parallelism]", "[activation_checkpoint]", "[training]", "Trainer.Config("),
                *("data_parallel_shard_degree", "from torchtitan"),
            }
        ),
        marks=frozenset(
            {
                *("parallelism.data_parallel_shard_degree", "training.local_batch_size"),
                *("job.config_file", "training.seq_len", "training.seq-len"),
            }
        ),
    )
}
