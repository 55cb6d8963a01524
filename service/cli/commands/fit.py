"""Say whether a workload fits on a GPU, what its memory is made of and what would help; offline
unless a server is named.
"""

import argparse
import sys
from importlib import import_module
from typing import Any

from service.base.errors import InvalidRequestError
from service.cli.answer_source import (
    Source,
    add_cluster,
    add_source,
    answer_question,
    get_cluster,
    get_source,
    tell_source,
)
from service.cli.commands.schedulers.formats import (
    add_format,
    read_format_options,
    require_format,
)
from service.cli.confidence import add_confidence
from service.cli.flags import add_gpu, add_question, build_workload, get_gpu
from service.cli.launch.questions import Gaps, add_launch, take_launch
from service.cli.model_files.naming import get_model, name_model
from service.cli.printing import print_json
from service.cli.schema_flags import translate_to_flags
from service.cli.starting_load import assume_starting_load
from service.terminal.arguments import DOES_NOT_FIT, FITS, TIGHT, Parser
from service.terminal.controls import spell_controls

_NUMBERS_OF_GPUS = ("--num-gpus", "--gpus", "--gpu-count", "--n-gpus")
_HOW_GPUS_ARE_COUNTED = (
    " GPUs are counted by how they share the job: say --tensor-parallel, --data-parallel or "
    "another degree of the layout; headroom how-many finds the number."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model, GPU, workload and layout."""
    add_question(parser, usage="%(prog)s MODEL --gpu GPU --task train|serve [WORD …]")
    add_launch(parser, starts=True)
    add_gpu(parser)
    add_cluster(parser)
    if isinstance(parser, Parser):
        for flag in _NUMBERS_OF_GPUS:
            parser.explain_absent(flag, _HOW_GPUS_ARE_COUNTED)
    add_confidence(parser)
    parser.add_argument(
        "--strict",
        action="store_true",
        help="leave with 3 in place of 0 where it is tight: it fits at the point of the interval "
        "and not at its upper end",
    )
    add_format(parser, "print the job alone, as this scheduler's client reads it, where it fits")
    parser.add_argument(
        "--json", action="store_true", help="print the answer as POST /v1/fit sends it"
    )
    add_source(parser, "stored models and measurements")


def run(options: argparse.Namespace) -> int:
    """Print the answer.

    The code is 0 when it fits, 1 when it does not; where it is tight 0, or 3 if that is told apart.
    """
    source = get_source(options)
    take_launch(options, source, bounds=True)
    assume_starting_load(options)
    document = {
        "model": get_model(options),
        "gpu": get_gpu(options),
        **get_cluster(options),
        **build_workload(options),
        "confidence": options.confidence,
    }
    if options.format is not None:
        return _print_format(document, options, source)
    read_format_options(options)
    require_format(options)
    if options.launch_gaps is not None:
        # What helps the least may not help the job.
        document["remedies"] = False
    result = answer_question("fit", document, source)
    _check_bound(options, result["verdict"])
    if options.json:
        print_json(result)
    else:
        subject = f"{name_model(options)} on {options.gpu or options.gpu_memory}"
        num_gpus = result["num_gpus"]
        # A program that reads JSON need not wait for the terminal library, a tenth of a cold
        # answer.
        view = import_module("service.cli.views.fit")
        view.show_fit(f"{subject}, {num_gpus} {'GPU' if num_gpus == 1 else 'GPUs'}", result)
    tell_source(source, is_json=options.json)
    return _get_code(options, result["verdict"])


def _print_format(document: dict[str, Any], options: argparse.Namespace, source: Source) -> int:
    """Print a job in a format; who answered is no part of it.

    Raises InvalidRequestError where the format cannot carry it.
    """
    document |= {"format": options.format, **read_format_options(options)}
    if options.container_image is not None:
        document |= {"container_image": options.container_image}
    result = answer_question("rendering", document, source)
    _check_bound(options, result["verdict"])
    if options.json:
        print_json(result)
    elif result["verdict"] == "does_not_fit":
        sys.stderr.write(
            f"headroom: there is no job to print: {spell_controls(result['reason'])}\n"
        )
    elif result["text"] is None:
        raise InvalidRequestError(f"{result['format']}: {result['reason']}")
    else:
        sys.stdout.write(result["text"])
    return _get_code(options, result["verdict"])


def _check_bound(options: argparse.Namespace, verdict: str) -> None:
    """Refuse what fits where a launch leaves open what only adds memory."""
    gaps: Gaps | None = options.launch_gaps
    if gaps is None:
        return
    if verdict != "does_not_fit":
        raise gaps.refusal
    fields = translate_to_flags(" and ".join(gaps.fields))
    sys.stderr.write(f"headroom: does not fit whatever {fields} is: what follows is the least\n")


def _get_code(options: argparse.Namespace, verdict: str) -> int:
    codes = {"does_not_fit": DOES_NOT_FIT, "tight": TIGHT if options.strict else FITS}
    return codes.get(verdict, FITS)
