"""Print sbatch's options of the fewest GPUs that a launch or a workload needs, for
``sbatch $(headroom slurm-flags …) job.sh``; offline unless told.
"""

import argparse
import shlex
import sys
from typing import Any

from service.cli.answer_source import add_source, answer_question, get_source
from service.cli.command_table import REFUSALS
from service.cli.confidence import add_search_confidence, get_confidence
from service.cli.flags import add_gpu, add_question, build_workload, collect_fields, get_gpu
from service.cli.launch.questions import add_launch, take_launch
from service.cli.model_files.naming import get_model, name_model
from service.terminal.arguments import DOES_NOT_FIT, FITS

_OF_THE_SCRIPT = "--job-name"
_DIRECTIVE = "#SBATCH "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model, GPU, workload, layout and the most GPUs."""
    add_question(parser, usage="%(prog)s --gpu GPU [WORD …] -- torchrun … train.py")
    add_launch(parser)
    add_gpu(parser)
    search = parser.add_argument_group("search")
    search.add_argument(
        "--max-gpus", type=int, metavar="N", help="largest number to try (default 1024)"
    )
    add_search_confidence(search)
    add_source(parser, "stored models")


def run(options: argparse.Namespace) -> int:
    """Print the options on one line; what else is to be known goes to stderr.

    The code is 0 with options, 1 where nothing is enough, which prints what sbatch refuses.
    """
    is_fixed = _take_launch(options)
    result = answer_question("plan", _build_document(options), get_source(options))
    if result["num_gpus"] is None:
        sys.stdout.write(f"{REFUSALS['slurm-flags']}\n")
        sys.stderr.write(f"headroom: {name_model(options)} does not fit: {result['reason']}\n")
        return DOES_NOT_FIT
    best = result["candidates"][0]
    requests: dict[str, Any] = best["requests"]
    sys.stdout.write(shlex.join(list_options(str(requests["slurm"]))) + "\n")
    sys.stderr.write(_describe(best, is_fixed=is_fixed))
    return FITS


def list_options(script: str) -> tuple[str, ...]:
    """Return the options in the head of a batch script that ask for resources."""
    lines = (line for line in script.splitlines() if line.startswith(_DIRECTIVE))
    words = (line.removeprefix(_DIRECTIVE) for line in lines)
    return tuple(word for word in words if not word.startswith(_OF_THE_SCRIPT))


def _take_launch(options: argparse.Namespace) -> bool:
    """Read the launch; return whether it says how many GPUs it is for.

    One that says so is answered as it is; else what it says of a layout is that of one process,
    which is no wish, and the layout is searched.
    """
    flags = collect_fields(options, {}).get("layout", {})
    take_launch(options, get_source(options), searched="layout.data_parallel")
    question = getattr(options, "launch_question", None)
    if question is None:
        return False
    layout = question["layout"]
    if any(layout.get(f"{kind}_parallel", 1) > 1 for kind in ("data", "tensor", "pipeline")):
        return True
    options.launch_question = {**question, "layout": flags}
    return False


def _build_document(options: argparse.Namespace) -> dict[str, object]:
    limit = {} if options.max_gpus is None else {"max_gpus": options.max_gpus}
    return {
        "model": get_model(options),
        "gpus": [get_gpu(options)],
        **build_workload(options),
        "constraints": limit,
        "confidence": get_confidence(options),
        "objective": "fewest_gpus",
    }


def _describe(best: dict[str, Any], *, is_fixed: bool) -> str:
    """Return the answer in a line, and the command where the search decided it."""
    gpus, fit = best["num_gpus"], best["fit"]
    line = f"headroom: {gpus} {best['gpu']}, {fit['verdict']}"
    command = best["requests"]["launch"]["command"]
    more = "" if is_fixed or gpus == 1 else f"; a job on {gpus} GPUs runs: {command}"
    return f"{line}{more}\n"
