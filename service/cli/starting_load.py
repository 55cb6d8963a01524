"""Load of a served model where no flag names one."""

import argparse
import sys
from collections.abc import Mapping

from service.base.errors import InvalidRequestError
from service.cli.model_files.tasks import infer_task
from service.cli.schema_flags import translate_to_flags
from service.formats.launches.values.launch import STARTING_LOAD

LOAD: Mapping[str, int] = {f"workload.{name}": value for name, value in STARTING_LOAD.items()}
_BOUNDS = (
    *("global_batch_size", "max_hours", "max_prefill_time_s", "max_step_time_s"),
    *("max_time_per_output_token_s", "min_num_sequences", "min_tokens_per_second"),
)
"""What a search must reach: nothing of it is said of one request."""
_NAMING_A_LOAD = frozenset({*LOAD, *_BOUNDS, "frameworks", "launch_files", "workload.inputs"})


def assume_starting_load(options: argparse.Namespace, *, engine: str | None = None) -> None:
    """Ask whether a model can be served at all, which stderr says.

    Nothing is assumed where a launch, a part of a load or what must be carried is given, nor where
    only a number or a job is printed. Without any word of a task it is serving. A search needs an
    ``engine`` that spreads a model over GPUs, where no flag names another.
    """
    flags = {dest for dest, value in vars(options).items() if value is not None}
    names_load = {*flags, *(flag.rpartition(".")[0] for flag in flags)} & _NAMING_A_LOAD
    if options.launch_command or prints_bare(options) or names_load:
        return
    task = _find_task(options, flags)
    if task == "train":
        return
    for field, value in LOAD.items():
        setattr(options, field, value)
    with_engine = ""
    if engine is not None and "workload.engine" not in flags:
        setattr(options, "workload.engine", engine)
        with_engine = f" with --engine {engine}"
    unsaid, other = ("load", "") if task else ("task", ", or --task train for training")
    options.task = "serve"
    sys.stderr.write(
        f"headroom: no {unsaid} is named, so this answers whether one request of "
        f"{STARTING_LOAD['prompt_tokens']} tokens can be served{with_engine}; say "
        f"{translate_to_flags(' and '.join(LOAD))} for your load{other}\n"
    )


def prints_bare(options: argparse.Namespace) -> bool:
    """Return whether only a number or a job is printed."""
    return getattr(options, "format", None) is not None or getattr(options, "count", False)


def _find_task(options: argparse.Namespace, flags: set[str]) -> str | None:
    """Return the task that words tell; None where no word does."""
    if options.task is not None or not any(flag.startswith("workload.") for flag in flags):
        return str(options.task) if options.task else None
    try:
        return infer_task(options)
    except InvalidRequestError:
        # Words of both are refused where the question is read, with what to say.
        return "train"
