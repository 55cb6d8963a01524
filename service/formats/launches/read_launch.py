"""The door: a launch in, the question that it asks out."""

from dataclasses import replace
from fnmatch import fnmatchcase
from importlib import import_module

from service.formats.launches.allocations.find_allocation import find_allocation
from service.formats.launches.allocations.put_allocation import put_allocation
from service.formats.launches.sources.commands import CONTAINERS, Command
from service.formats.launches.sources.handed_in import HandedIn, find_absent_script, parse_launch
from service.formats.launches.sources.launch_scripts import find_launch
from service.formats.launches.sources.reader import PROGRAM, Reader
from service.formats.launches.trainers.unmodelled_trainers import (
    refuse_preferences,
    refuse_recipes,
    refuse_strangers,
    refuse_unmodelled,
)
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import ImportedLaunch, Launch, Launcher

_MODULES = {
    Launcher.TRAINER: "trainers.trainer",
    Launcher.TRL_SFT: "trainers.trainer",
    Launcher.TRL_DPO: "trainers.trainer",
    Launcher.TRL_KTO: "trainers.trainer",
    Launcher.TRL_ORPO: "trainers.trainer",
    Launcher.TRL_CPO: "trainers.trainer",
    Launcher.TRL_REWARD: "trainers.trainer",
    Launcher.TRL_GRPO: "policies.trl_grpo",
    Launcher.TRL_RLOO: "policies.trl_rloo",
    Launcher.VERL: "policies.verl",
    Launcher.OPENRLHF: "policies.openrlhf",
    Launcher.ACCELERATE: "trainers.trainer",
    Launcher.DEEPSPEED: "trainers.trainer",
    Launcher.AXOLOTL: "recipes.axolotl",
    Launcher.LLAMAFACTORY: "recipes.llamafactory",
    Launcher.MS_SWIFT: "ms_swift.swift",
    Launcher.UNSLOTH: "recipes.unsloth",
    Launcher.MEGATRON: "pretraining.megatron",
    Launcher.NEMO: "pretraining.nemo",
    Launcher.TORCHTITAN: "pretraining.torchtitan",
    Launcher.LITGPT: "recipes.litgpt",
    Launcher.GENERATE: "engines.generate",
    Launcher.VLLM: "engines.vllm",
    Launcher.SGLANG: "engines.sglang",
    Launcher.LLAMA_CPP: "engines.llama_cpp",
    Launcher.TENSORRT_LLM: "engines.tensorrt_llm",
    Launcher.TGI: "engines.tgi",
    Launcher.LMDEPLOY: "engines.lmdeploy",
}
"""Module of each reader, loaded where its launcher may be meant: it has them in ``READERS``."""


_SHARDED = frozenset({Launcher.TRAINER, Launcher.ACCELERATE, Launcher.DEEPSPEED})
"""One reader's: the first of them has most to say."""
_PLAIN = _SHARDED | {Launcher.TRL_SFT}
"""Readers of training on tokens alone."""


def read_launch(launch: Launch) -> ImportedLaunch:
    """Return the question of a launch, its settings accounted for.

    Raises LaunchFormatError for what cannot be read, contradicts itself or is no known launcher's.
    """
    handed_in = parse_launch(launch)
    if handed_in.command is None and (handed_in.scripts or handed_in.manifests):
        handed_in = find_launch(handed_in, _list_programs())
    reader = _get_reader(launch.launcher) if launch.launcher else _detect_reader(handed_in)
    is_guessed = launch.launcher is None and _is_guessed(handed_in, reader)
    draft = Draft()
    allocation = find_allocation(handed_in.command)
    handed_in = replace(handed_in, allocation=allocation)
    reader.read(handed_in, draft)
    if allocation is not None:
        put_allocation(allocation, draft, launch)
    for remark in () if handed_in.command is None else handed_in.command.remarks:
        draft.warn(remark)
    for package, version in reader.versions.items():
        draft.set_version(package, version)
    _account_unknown(handed_in, reader, draft)
    draft.account(handed_in.arguments)
    for settings in handed_in.documents.values():
        draft.account(settings)
    if launch.launcher is None:
        _check_options(handed_in, reader, draft)
    if is_guessed and handed_in.command is None:
        _check_keys(handed_in, reader, draft)
    return draft.finish(reader.launcher)


def _is_guessed(handed_in: HandedIn, reader: Reader) -> bool:
    """Return whether keys that others have too tell a file's launcher."""
    is_marked = reader.launcher in {Launcher.DEEPSPEED, Launcher.ACCELERATE}
    return not is_marked and reader.count_marks(handed_in) < PROGRAM


def _check_options(handed_in: HandedIn, reader: Reader, draft: Draft) -> None:
    """Refuse a script most of whose options are another's."""
    command = handed_in.command
    if command is not None and not reader.is_started_by(command):
        refuse_strangers(command.program, reader.launcher.value, *draft.list_options())


def _check_keys(handed_in: HandedIn, reader: Reader, draft: Draft) -> None:
    """Refuse a file most of whose keys are another's."""
    files = " and ".join(handed_in.documents)
    refuse_strangers(files or "arguments", reader.launcher.value, *draft.list_keys(), word="keys")


def _account_unknown(handed_in: HandedIn, reader: Reader, draft: Draft) -> None:
    """Name what a script takes from outside, unless it decides nothing."""
    reason = "the script takes it from outside; set it there, or say its field beside the launch"
    for setting in handed_in.unknown:
        name = setting.key.lstrip("-").replace("-", "_")
        if any(fnmatchcase(name, pattern) for pattern in reader.idle):
            draft.drop(setting)
        else:
            draft.ignore(setting, reason)


def _list_programs() -> frozenset[str]:
    return frozenset().union(*(_get_reader(launcher).programs for launcher in _MODULES))


def _get_reader(launcher: Launcher) -> Reader:
    module = import_module(f"{__package__}.{_MODULES[launcher]}")
    reader: Reader = module.READERS[launcher]
    return reader


def _detect_reader(handed_in: HandedIn) -> Reader:
    """Return the reader that most tells for."""
    readers = [_get_reader(launcher) for launcher in _MODULES]
    counts = {reader.launcher: reader.count_marks(handed_in) for reader in readers}
    best = max(counts.values())
    named = [launcher for launcher, count in counts.items() if count == best]
    command = handed_in.command
    if not any(command and reader.is_started_by(command) for reader in readers):
        refuse_unmodelled(command)
        refuse_recipes(handed_in)
    is_foreign = command is not None and best < PROGRAM and not _is_script(command)
    if best and not is_foreign and (len(named) == 1 or _SHARDED.issuperset(named)):
        if named[0] in _PLAIN:
            refuse_preferences(handed_in)
        return _get_reader(named[0])
    _refuse_absent(handed_in)
    program = "" if command is None else f"{command.program} ({command.where}): "
    message = (
        f"{program}which launcher is this? say one of {', '.join(named)} as launcher"
        if best and not is_foreign
        else f"{program}no launcher is known by it; say launcher: one of {', '.join(counts)}"
    )
    raise LaunchFormatError(message, field="launcher")


def _refuse_absent(handed_in: HandedIn) -> None:
    """Refuse a command that runs a script which was not handed in.

    Raises LaunchFormatError, which asks for it.
    """
    commands = [] if handed_in.command is None else [handed_in.command]
    for command in (*commands, *handed_in.idle):
        name = find_absent_script(command)
        if name is not None:
            message = f"runs {name}, which was not handed in; hand it in, too (--from {name})"
            raise LaunchFormatError(message, where=command.where)


def _is_script(command: Command) -> bool:
    """Return whether a program is somebody's own, not another project's."""
    is_started = command.starters.keys() - CONTAINERS
    return bool(is_started) or command.is_python or command.program.endswith(".py")
