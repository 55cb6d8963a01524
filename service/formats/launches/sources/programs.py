"""The program of a command, and what it starts by itself."""

from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from service.formats.launches.sources.argv import Grammar, read_argv
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Settings

TORCHRUN = Grammar(flags=frozenset({"standalone", "no_python", "run_path", "m", "module"}))
ACCELERATE = Grammar(
    flags=frozenset({"multi_gpu", "use_deepspeed", "use_fsdp", "cpu", "module", "no_python"}),
    short={"m": "module"},
)
_WITH_COMMANDS = frozenset({"trl"})
"""Programs whose first word says which of their programs runs."""
_TRL_SCRIPTS = "trl.scripts."
_LAUNCHED_BY_TRL = frozenset({"sft", "dpo", "kto", "grpo", "reward", "rloo"})
"""Commands of TRL that accelerate starts (TRL 1.16, ``trl/cli/commands/__init__.py``)."""
_FLAGS = ACCELERATE.flags
_ACCELERATED = (
    *("accelerate_config", "config_file", "num_processes", "num_machines", "machine_rank"),
    *("main_process_*", "gpu_ids", "mixed_precision", "multi_gpu", "use_deepspeed", "use_fsdp"),
    *("fsdp_version", "fsdp_offload_params", "fsdp_*_strategy", "fsdp_reshard_after_forward"),
    *("zero_stage", "offload_*_device", "deepspeed_config_file", "dynamo_backend"),
)
"""Options of ``accelerate launch`` that no script of TRL has, by patterns."""
WINDOWS = ".exe"
_COMPONENTS = ":"
_SLURM = frozenset({"srun", "sbatch", "salloc"})
_AXOLOTL_STARTS = {"accelerate": ACCELERATE, "torchrun": TORCHRUN}
_SWIFT = ("swift/cli", "swift/cli/_megatron")
_AXOLOTL = frozenset({"train"})
"""Commands of axolotl that start a launcher (axolotl 0.19, ``cli/main.py``)."""


def read_program(
    tokens: list[str], starters: dict[str, Settings], where: str
) -> tuple[str, list[str]]:
    """Return a program's name and its arguments.

    TRL's command hands what its script does not know to accelerate, which it starts.
    """
    program = _name_program(PurePosixPath(tokens[0]))
    if program == _COMPONENTS and starters.keys() & _SLURM:
        message = (
            "':' begins another component of a heterogeneous job, which is read from #SBATCH "
            "hetjob lines alone; type the options of the component that runs the launch"
        )
        raise LaunchFormatError(message, where=where, field="command")
    if program.startswith(_TRL_SCRIPTS):
        return f"trl {program.removeprefix(_TRL_SCRIPTS)}", tokens[1:]
    if program == "axolotl" and tokens[1:2] and tokens[1] in _AXOLOTL:
        return program, _start_axolotl(tokens[1:], starters, where)
    if program not in _WITH_COMMANDS or len(tokens) == 1:
        return program, tokens[1:]
    arguments: list[str] = []
    launched: list[str] = []
    options = launched if tokens[1] in _LAUNCHED_BY_TRL else arguments
    index = 2
    while index < len(tokens):
        name = tokens[index].lstrip("-").partition("=")[0].replace("-", "_")
        is_pair = index + 1 < len(tokens) and "=" not in tokens[index] and name not in _FLAGS
        width = 2 if is_pair else 1
        if tokens[index].startswith("--") and any(fnmatchcase(name, key) for key in _ACCELERATED):
            options += tokens[index : index + width]
            index += width
        else:
            arguments.append(tokens[index])
            index += 1
    if tokens[1] in _LAUNCHED_BY_TRL:
        starters.setdefault("accelerate", read_argv(launched, ACCELERATE, where=where))
    return f"{program} {tokens[1]}", arguments


def _name_program(path: PurePosixPath) -> str:
    """Return a program's name: its path's last part, or a module's.

    ms-swift's have the names of others' scripts (``swift/cli/sft.py``).
    """
    folder = path.parent.as_posix()
    for package in _SWIFT:
        if path.suffix == ".py" and f"/{folder}".endswith(f"/{package}"):
            return f"{package.replace('/', '.')}.{path.stem}"
    return path.name.removesuffix(WINDOWS)


def _start_axolotl(tokens: list[str], starters: dict[str, Settings], where: str) -> list[str]:
    """Return axolotl's words without those of what it starts.

    Behind ``--`` they are the launcher's, accelerate unless ``--launcher`` says torchrun (axolotl
    0.19, ``cli/utils/train.py``).
    """
    split = tokens.index("--") if "--" in tokens else len(tokens)
    launched, arguments, launcher = tokens[split + 1 :], tokens[:split], "accelerate"
    for name in ("--launcher", "--num-processes", "--num_processes"):
        value, arguments = _take_option(name, arguments)
        if value is None:
            continue
        if name == "--launcher" and value not in _AXOLOTL_STARTS:
            return [*arguments, name, value]
        if name == "--launcher":
            launcher = value
        else:
            launched = ["--num_processes", value, *launched]
    if launched or len(arguments) < split:
        starters.setdefault(launcher, read_argv(launched, _AXOLOTL_STARTS[launcher], where=where))
    return arguments


def _take_option(name: str, tokens: list[str]) -> tuple[str | None, list[str]]:
    """Return the value of an option, and the words without both."""
    for index, word in enumerate(tokens):
        if word == name and index + 1 < len(tokens):
            return tokens[index + 1], tokens[:index] + tokens[index + 2 :]
        if word.startswith(f"{name}="):
            return word.partition("=")[2], tokens[:index] + tokens[index + 1 :]
    return None, tokens
