"""Variables and starters of serving engines' launches."""

from collections.abc import Iterable, Mapping

from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings

_ENVIRONMENT_WITHOUT_EFFECT = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HF_*", "HUGGING_FACE_*", "TRANSFORMERS_*"),
    *("NCCL_*", "GLOO_*", "OMP_*", "TOKENIZERS_PARALLELISM", "PATH", "PYTHON*", "HOME"),
    *("*_LOGGING_*", "*_LOG_LEVEL", "*_API_KEY", "*_USAGE_*", "*_NO_USAGE_STATS", "*_HOST_IP"),
    *("VLLM_WORKER_MULTIPROCESS_METHOD", "VLLM_PORT", "LD_LIBRARY_PATH", "RAY_*", "PET_*"),
    *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_REQUIRE_*"),
)
_STARTER_WITHOUT_EFFECT = (
    *("partition", "job_name", "time", "label", "unbuffered", "exclusive", "cpus_per_task"),
    *("output", "error", "account", "qos", "container_*", "no_container_*", "export", "mpi"),
    *("nodes", "ntasks*", "gpus*", "gres", "constraint", "nodelist", "exclude", "w", "mem*"),
)
"""Of ``srun`` and others that start an engine: what says where it runs, not on how much."""


def name_variables(handed_in: HandedIn, options: Mapping[str, str]) -> Settings:
    """Return the variables that stand for options, by the options' names.

    ``options`` are the names of options by those of variables; the earlier variable wins.
    """
    command = handed_in.command
    named: dict[str, Setting] = {}
    if command is not None:
        for variable, option in options.items():
            if variable in command.environment:
                value = command.environment[variable]
                setting = Setting(key=variable, value=value, where=command.where)
                named.setdefault(option, setting)
    return Settings(named)


def account_environment(
    draft: Draft,
    handed_in: HandedIn,
    *,
    options: Iterable[str] = (),
    without_effect: tuple[str, ...] = (),
) -> None:
    """Sort the variables and the starters' options before a command.

    Variables that stand for ``options`` are accounted for where those are.
    """
    if handed_in.command is None:
        return
    variables = [
        Setting(key=name, value=value, where="command")
        for name, value in handed_in.command.environment.items()
        if name not in options
    ]
    draft.account(Settings(variables), (*_ENVIRONMENT_WITHOUT_EFFECT, *without_effect))
    for name, settings in handed_in.command.starters.items():
        is_container = name in {"docker", "podman"}
        draft.account(settings, ("*",) if is_container else _STARTER_WITHOUT_EFFECT)
