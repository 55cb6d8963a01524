"""Commands: what starts a program, and the program itself with its words."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from service.formats.launches.sources.argv import Grammar, read_argv, split_cluster
from service.formats.launches.sources.containers import (
    DOCKER,
    Container,
    Pod,
    find_release,
    read_docker_run,
)
from service.formats.launches.sources.limits import check_words
from service.formats.launches.sources.programs import ACCELERATE, TORCHRUN, WINDOWS, read_program
from service.formats.launches.sources.slurm_jobs import (
    SBATCH,
    SLURM,
    add_counts,
    bound_nodes,
    join_options,
)
from service.formats.launches.sources.wrappers import skip_wrapper
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PYTHON = re.compile(r"python(3(\.[0-9]+)?)?")
_BEFORE = frozenset({"exec", "nohup", "time", "export", "set", "-x"})
_DEEPSPEED = Grammar(
    flags=frozenset({"no_python", "no_local_rank", "no_ssh", "force_multi", "module"})
)
_MPIRUN = Grammar(
    flags=frozenset(
        {
            *("allow_run_as_root", "oversubscribe", "tag_output", "display_map", "verbose", "v"),
            *("report_bindings", "report_uri", "nooversubscribe", "use_hwthread_cpus", "quiet"),
            "q",
        }
    ),
    short={"n": "np", "c": "np", "N": "npernode", "H": "host", "x": "x"},
)
STARTERS: Mapping[str, Grammar] = {
    "torchrun": TORCHRUN,
    "accelerate": ACCELERATE,
    "deepspeed": _DEEPSPEED,
    **dict.fromkeys(("srun", "salloc"), SLURM),
    "sbatch": SBATCH,
    **dict.fromkeys(("mpirun", "mpiexec", "horovodrun"), _MPIRUN),
    **dict.fromkeys(("docker", "podman"), DOCKER),
}
"""Programs that start another one on several GPUs, and how their words are cut."""

_JOBS = frozenset({"sbatch", "salloc"})
"""Programs that start another one in a job of Slurm."""
CONTAINERS = frozenset({"docker", "podman"})
_STARTER_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
}
_RAY_SUBMIT = ["ray", "job", "submit"]
_TWO_VALUES = dict.fromkeys(("mca", "gmca"), 3)
"""Words of an option with its values, where it has two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its arguments, and what starts it.

    ``program`` is the last part of its path, or a module's name; ``starters`` are the settings of
    what starts it (``torchrun``, ``accelerate``, ``deepspeed``, ``srun``) by its name. ``where`` is
    the place of the command, ``version`` that of the container's image or of the program
    (``uvx vllm@0.9.1``), empty without one.
    """

    program: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    starters: Mapping[str, Settings] = field(default_factory=dict)
    where: str = "command"
    version: str = ""
    is_python: bool = False
    """Whether an interpreter runs it."""
    slurm: Settings | None = None
    """Options of the job of Slurm that it runs in."""
    gpus: Setting | None = None
    """How many GPUs its container is given."""
    pod: Pod | None = None
    other_pods: tuple[Pod, ...] = ()
    """Pods that run the same words beside it."""
    remarks: tuple[str, ...] = ()
    """What whoever asks should read of its job."""


def read_command(tokens: Sequence[str], *, where: str = "command") -> Command:
    """Return the program that a command starts.

    Raises LaunchFormatError where there is none, or too many words.
    """
    check_words(tokens, where)
    environment: dict[str, str] = {}
    starters: dict[str, Settings] = {}
    remaining, version, is_python, gpus = _skip_ray(list(tokens)), "", False, None
    while remaining:
        word = remaining[0]
        name = PurePosixPath(word).name.removesuffix(WINDOWS)
        name = _STARTER_MODULES.get(name, name)
        if _ASSIGNMENT.match(word):
            key, _, value = word.partition("=")
            environment[key] = value
            remaining = remaining[1:]
        elif name in _BEFORE:
            remaining = remaining[1:]
        elif (wrapped := skip_wrapper(name, remaining[1:])) is not None:
            remaining = wrapped
        elif _PYTHON.fullmatch(name):
            remaining, is_python = _skip_python(remaining[1:]), True
            name = PurePosixPath(remaining[0]).name if remaining else ""
            if name not in STARTERS and name not in _STARTER_MODULES:
                break
        elif name in CONTAINERS:
            container = _read_container(name, remaining[1:], starters, where)
            remaining, version, gpus = list(container.tokens), container.version, container.gpus
        elif name in STARTERS:
            remaining = _read_starter(name, remaining[1:], starters, where)
        else:
            break
    if not remaining:
        message = "starts no program"
        raise LaunchFormatError(message, where=where, field="command")
    program, arguments = read_program(remaining, starters, where)
    program, _, release = program.partition("@")
    command = Command(
        program=program,
        arguments=tuple(arguments),
        environment=environment,
        starters=starters,
        where=where,
        version=version or find_release(release),
        is_python=is_python,
        gpus=gpus,
    )
    return _enter_job(command)


def _enter_job(command: Command) -> Command:
    """Return a command with the job that starts it, if any."""
    starters = {name: entry for name, entry in command.starters.items() if name not in _JOBS}
    for name in _JOBS & command.starters.keys():
        job = bound_nodes(command.starters[name])
        return add_job(replace(command, starters=starters), job)
    return command


def add_job(command: Command, job: Settings) -> Command:
    """Return a command of a job of Slurm.

    Its ``srun`` has the job's numbers. An option of the step wins over the job's.
    """
    steps = command.starters.get("srun")
    if steps is None:
        return replace(command, slurm=job)
    slurm = join_options(steps, job)
    return replace(
        command, starters={**command.starters, "srun": add_counts(steps, job)}, slurm=slurm
    )


def skip_job_options(tokens: Sequence[str]) -> list[str]:
    """Return words without the options of ``sbatch`` among them."""
    names = [PurePosixPath(word).name for word in tokens]
    if "sbatch" not in names:
        return list(tokens)
    begin = names.index("sbatch") + 1
    return [*tokens[:begin], *_cut_options(list(tokens[begin:]), SBATCH)[1]]


def _skip_ray(tokens: list[str]) -> list[str]:
    """Return the words without those of ``ray job submit``.

    Ray's options say where a job runs, not what it takes.
    """
    begin = tokens.index("ray") if "ray" in tokens else len(tokens)
    if tokens[begin : begin + len(_RAY_SUBMIT)] != _RAY_SUBMIT or "--" not in tokens[begin:]:
        return tokens
    return [*tokens[:begin], *tokens[tokens.index("--", begin) + 1 :]]


def _skip_python(tokens: list[str]) -> list[str]:
    """Return the words from the script or module on."""
    index = 0
    while index < len(tokens) and tokens[index].startswith("-"):
        if tokens[index] == "-m":
            return tokens[index + 1 :]
        index += 2 if tokens[index] in {"-W", "-X"} else 1
    return tokens[index:]


def _read_starter(
    name: str, tokens: list[str], starters: dict[str, Settings], where: str
) -> list[str]:
    """Keep a starter's settings; return the words of what it starts."""
    grammar = STARTERS[name]
    tokens = tokens[1:] if tokens[:1] in (["launch"], ["run"], ["exec"]) else tokens
    options, remaining = _cut_options(tokens, grammar)
    starters[name] = read_argv(options, grammar, where=where)
    if remaining[:1] == ["--"]:
        remaining = remaining[1:]
    return remaining


def _cut_options(tokens: list[str], grammar: Grammar) -> tuple[list[str], list[str]]:
    """Return the leading options and the rest."""
    index = 0
    while index < len(tokens) and tokens[index].startswith("-") and tokens[index] != "--":
        last = split_cluster(tokens[index], grammar)[-1]
        text, equals, _ = last.lstrip("-").partition("=")
        name = grammar.short.get(text, text.replace("-", "_"))
        takes_value = not equals and name not in grammar.flags
        index += _TWO_VALUES.get(name, 2) if takes_value else 1
    return tokens[:index], tokens[index:]


def _read_container(
    name: str, tokens: list[str], starters: dict[str, Settings], where: str
) -> Container:
    """Keep the options of ``docker run``; return what its image runs."""
    remaining = _read_starter(name, tokens, starters, where)
    options = tokens[: len(tokens) - len(remaining)]
    container = read_docker_run(starters[name], options, remaining, where=where)
    if remaining and not container.tokens:
        message = (
            f"{remaining[0]} starts a program of its own, which is not known here: say it after "
            "the image, such as vllm serve MODEL"
        )
        raise LaunchFormatError(message, where=where, field="command")
    return container
