"""Megatron-LM's arguments: a command, a shell script, or a document of them.

Megatron Core 0.20, ``megatron/training/arguments.py``.
"""

from fnmatch import fnmatchcase

from service.formats.launches.pretraining.launch_command import (
    count_ranks,
    read_program,
)
from service.formats.launches.pretraining.megatron_keys import (
    GENERATION,
    GRAMMAR,
    MEGATRON,
    OTHER_PROGRAMS,
    PROGRAMS,
    TIME_ALONE,
    TRAINING,
    WITHOUT_EFFECT,
    WITHOUT_TERM,
)
from service.formats.launches.pretraining.megatron_layout import put_layout, read_tensor_parallel
from service.formats.launches.pretraining.megatron_model import ModelShape, put_model
from service.formats.launches.pretraining.megatron_options import (
    put_option_defaults,
    put_options,
)
from service.formats.launches.pretraining.megatron_step import (
    put_step,
    read_micro_batch,
    read_total_batch,
)
from service.formats.launches.pretraining.mesh import put_batches, put_ranks
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.trainers.processes import Processes
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Setting, Settings

_ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_FP8 = "fp8_*"
_TEST_KEYS = ("TEST_TYPE", "MODE", "LAUNCHER", "METRICS*", "BEFORE_SCRIPT", "AFTER_SCRIPT")
"""What Megatron-LM's tests say beside the arguments."""


def read_megatron(handed_in: HandedIn, draft: Draft) -> None:
    """Read the arguments of ``pretrain_gpt.py`` and of what starts it."""
    arguments, environment = _collect_arguments(handed_in, draft)
    if not len(arguments):
        programs = "pretrain_gpt.py and its options, in a command or a shell script"
        message = f"holds no arguments of Megatron-LM; expected {programs}"
        raise LaunchFormatError(message)
    _check_training(handed_in, arguments)
    ranks = count_ranks(handed_in, draft)
    put_option_defaults(draft, put_training(arguments, environment, ranks, draft, handed_in))
    _account(arguments, draft)


def put_training(
    arguments: Settings,
    environment: Settings,
    processes: Processes,
    draft: Draft,
    handed_in: HandedIn,
) -> ModelShape:
    """Set model, layout and step; return the model's numbers.

    NeMo and Megatron-Bridge have the same by other names. Settings that are left have no field.
    """
    draft.put("workload.task", "train")
    draft.put("workload.framework", "megatron")
    tensor = read_tensor_parallel(arguments, draft)
    tensor_ranks = 1 if tensor is None else tensor.as_int(minimum=1)
    shape = put_model(arguments, draft, handed_in, tensor_ranks)
    degrees = put_layout(arguments, draft, tensor, shape)
    micro = read_micro_batch(arguments, draft)
    total = read_total_batch(arguments, draft)
    batches = None if total is None or micro is None else total.as_int(minimum=1) // micro
    ranks = put_ranks(degrees, processes, batches, draft, handed_in)
    if micro is not None:
        put_batches(micro, total, ranks, draft)
    elif total is not None:
        draft.ignore(total, "its micro-batches follow from micro-batch-size, which is not said")
    put_step(arguments, draft, shape)
    _put_allocator(environment, draft)
    put_options(arguments, draft, shape)
    _note_reasons(arguments, draft)
    return shape


def _collect_arguments(handed_in: HandedIn, draft: Draft) -> tuple[Settings, Settings]:
    """Return arguments by their names, and environment variables.

    A document has them by their options (``--num-layers: 32``), below ``MODEL_ARGS`` in the tests
    of Megatron-LM.
    """
    arguments, environment = read_program(handed_in, PROGRAMS, GRAMMAR)
    for document in (handed_in.arguments, *handed_in.documents.values()):
        environment = environment.merge(document.take_group("ENV_VARS"))
        nested = document.take_group("MODEL_ARGS")
        arguments = arguments.merge(nested if len(nested) else document)
        if len(nested):
            draft.account(document, _TEST_KEYS)
    return _normalize(arguments), environment


def _check_training(handed_in: HandedIn, arguments: Settings) -> None:
    """Refuse programs that take the same arguments and train nothing."""
    command = handed_in.command
    if command is not None and any(fnmatchcase(command.program, name) for name in OTHER_PROGRAMS):
        message = f"{command.program} builds a model of its own; pretrain_gpt.py's has one here"
        raise LaunchFormatError(message, where=command.where)
    is_pretraining = command is None or any(
        fnmatchcase(command.program, program) for program in PROGRAMS
    )
    generates = next((name for name in GENERATION if name in arguments), None)
    if generates is None and (is_pretraining or any(name in arguments for name in TRAINING)):
        return
    name = "the launch" if command is None else f"{command.program} ({command.where})"
    reason = "says no train-iters or train-samples" if generates is None else f"says {generates}"
    message = (
        f"{name}: no launcher is known by it: it has arguments of Megatron-LM and {reason}; "
        "what trains has a model here"
    )
    raise LaunchFormatError(message)


def _normalize(arguments: Settings) -> Settings:
    """Return arguments by names with underscores; ``--no-x`` is ``x`` switched off."""
    named: dict[str, Setting] = {}
    for name, setting in arguments.take_all().items():
        plain = name.lstrip("-").replace("-", "_")
        value = setting.value
        if plain.startswith("no_") and (value is True or str(value).casefold() == "true"):
            plain, value = plain[3:], False
        named.setdefault(plain, Setting(key=setting.key, value=value, where=setting.where))
    return Settings(named)


def _put_allocator(environment: Settings, draft: Draft) -> None:
    setting = environment.take(*_ALLOCATOR)
    if setting is not None and "expandable_segments:true" in str(setting.value).casefold():
        draft.put("workload.allocator", "expandable_segments", setting)
    elif setting is not None:
        draft.ignore(setting, "the allocator is counted with its default settings")
    draft.account(environment, ("*",))


def _note_reasons(arguments: Settings, draft: Draft) -> None:
    """Account for arguments that count and have no field."""
    for name, reason in TIME_ALONE.items():
        setting = arguments.take(name)
        if setting is not None:
            draft.note(setting, reason)
    for name, reason in WITHOUT_TERM.items():
        setting = arguments.take(name)
        if setting is not None and setting.value not in (False, 0, "none", "False", "false"):
            draft.ignore(setting, reason)
        elif setting is not None:
            draft.drop(setting)


def _account(arguments: Settings, draft: Draft) -> None:
    is_fp8 = draft.get("workload.float8") is True
    draft.account(arguments, (*WITHOUT_EFFECT, *((_FP8,) if is_fp8 else ())))


READERS = {
    Launcher.MEGATRON: Reader(
        launcher=Launcher.MEGATRON,
        versions={"megatron-core": MEGATRON},
        read=read_megatron,
        programs=PROGRAMS,
        idle=WITHOUT_EFFECT,
        marks=frozenset(
            {
                *("tensor_model_parallel_size", "MODEL_ARGS.--num-layers"),
                *("MODEL_ARGS.--tensor-model-parallel-size", "MODEL_ARGS.--hidden-size"),
                *("pipeline_model_parallel_size", "use_distributed_optimizer", "train_samples"),
                *("train_iters", "use_mcore_models", "transformer_impl"),
            }
        ),
    )
}
