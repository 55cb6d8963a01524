"""Print sbatch's options of the fewest GPUs that a launch or a workload needs, for
``sbatch $(headroom slurm-flags …) job.sh``; offline unless told.
"""

import argparse
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.base.errors import InvalidRequestError
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
    parser.add_argument(
        "--write-files",
        metavar="FOLDER",
        help="write the files that the printed command reads, such as DeepSpeed's configuration",
    )
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
    folder = options.write_files
    if folder is not None:
        write_files(Path(folder), requests["launch"]["files"])
    sys.stdout.write(shlex.join(list_options(str(requests["slurm"]))) + "\n")
    sys.stderr.write(_describe(best, is_fixed=is_fixed, folder=folder))
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


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write what a command reads.

    Raises InvalidRequestError where a file is there with another text, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            path = folder / name
            if path.exists() and path.read_text() != text:
                message = f"{path} is there already, with another text"
                raise InvalidRequestError(message)
            path.write_text(text)
    except (OSError, UnicodeDecodeError) as error:
        message = f"--write-files {folder}: {error}"
        raise InvalidRequestError(message) from error


def _describe(best: dict[str, Any], *, is_fixed: bool, folder: str | None) -> str:
    """Return the answer in a line, and the command where the search decided it.

    Files that the command reads are named.
    """
    gpus, fit, launch = best["num_gpus"], best["fit"], best["requests"]["launch"]
    line = f"headroom: {gpus} {best['gpu']}, {fit['verdict']}"
    if is_fixed or gpus == 1:
        return f"{line}\n"
    names = ", ".join(launch["files"])
    where = "with --write-files ." if folder is None else f"in {folder}"
    read = f"; it reads {names}, written {where}" if names else ""
    return f"{line}; a job on {gpus} GPUs runs: {launch['command']}{read}\n"
