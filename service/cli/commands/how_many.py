"""Say how many GPUs a workload needs and why fewer are not enough; what is not said is searched;
offline unless told.
"""

import argparse
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from service.base.errors import InvalidRequestError
from service.cli.answer_source import (
    add_cluster,
    add_source,
    answer_question,
    get_cluster,
    get_source,
    tell_source,
)
from service.cli.commands.schedulers.formats import (
    add_format,
    print_candidate,
    read_formats,
    require_format,
)
from service.cli.confidence import add_search_confidence, get_confidence
from service.cli.flags import add_gpu, add_question, build_workload, get_gpu, parse_number
from service.cli.launch.questions import add_launch, take_launch, tell_bound
from service.cli.model_files.naming import get_model, name_model
from service.cli.printing import print_json
from service.cli.starting_load import assume_starting_load
from service.contract.to_answer.phrases import format_gpu, read_gpu_count
from service.terminal.arguments import DOES_NOT_FIT, FITS, Parser

_CONSTRAINTS = (
    "max_gpus",
    "global_batch_size",
    "min_tokens_per_second",
    "min_num_sequences",
)


_OF_PLANS = (
    "--allow",
    "--frameworks",
    "--max-cost-per-hour",
    "--max-hours",
    "--max-nodes",
    "--max-prefill-time-s",
    "--max-step-time-s",
    "--max-time-per-output-token-s",
    "--objective",
    "--pareto",
)
"""Bounds of times, money and frameworks."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model, GPU, workload, layout and search limits.

    What the flags fix of the layout is not searched.
    """
    add_question(parser, usage="%(prog)s MODEL --gpu GPU --task train|serve [WORD …]")
    add_launch(parser, starts=True)
    add_gpu(parser)
    add_cluster(parser)
    search = parser.add_argument_group("search")
    search.add_argument(
        "--max-gpus", type=parse_number, metavar="N", help="largest number to try (default 1024)"
    )
    search.add_argument(
        "--global-batch-size",
        type=parse_number,
        metavar="N",
        help="sequences of one optimizer step",
    )
    search.add_argument(
        "--min-tokens-per-second",
        type=float,
        metavar="N",
        help="of the whole job, or of all replicas",
    )
    search.add_argument(
        "--min-num-sequences",
        type=parse_number,
        metavar="N",
        help="sequences that all replicas serve at once",
    )
    add_search_confidence(search)
    if isinstance(parser, Parser):
        for flag in _OF_PLANS:
            parser.explain_absent(
                flag, f" `headroom plan` takes {flag}, with --gpus GPU: try that."
            )
    add_format(parser, "print the fewest GPUs alone, as a job that this scheduler's client reads")
    output = parser.add_mutually_exclusive_group()
    output.add_argument(
        "--json", action="store_true", help="print the answer as GET /v1/how-many sends it"
    )
    output.add_argument(
        "--count",
        action="store_true",
        help="print the number alone, for shells; where none is enough nothing, and why on stderr",
    )
    add_source(parser, "stored models and measurements")


def run(options: argparse.Namespace) -> int:
    """Print the answer.

    The code is 0 when every GPU that the name means has a number, 1 when one has none.
    """
    if options.count and options.format is not None:
        message = "--count prints the number alone, without a --format: say one of the two"
        raise InvalidRequestError(message)
    require_format(options)
    source = get_source(options)
    take_launch(options, source, keeps_layout=False, bounds=True)
    assume_starting_load(options, engine="vllm")
    tell_bound(options, "at least these GPUs")
    result = answer_question("how_many", _build_document(options), source)
    if options.count:
        return _print_count(result)
    if options.format is not None and not options.json:
        return _print_format(options.format, result)
    answers = result.get("answers", [result])
    if options.json:
        print_json(result)
    else:
        # As for a fit: who reads JSON does not wait for tables.
        view = import_module("service.cli.views.how_many")
        view.show_plans(str(name_model(options)), answers)
    tell_source(source, is_json=options.json)
    return DOES_NOT_FIT if any(plan["num_gpus"] is None for plan in answers) else FITS


def _print_count(result: Mapping[str, Any]) -> int:
    count = read_gpu_count(result)
    if count.num_gpus is None:
        sys.stderr.write(f"headroom: {count.sentence}\n")
        return DOES_NOT_FIT
    sys.stdout.write(f"{count.num_gpus}\n")
    return FITS


def _print_format(word: str, result: Mapping[str, Any]) -> int:
    """Print the fewest GPUs in a format, or why none are enough.

    Raises InvalidRequestError where the name means several GPUs.
    """
    answers = result.get("answers", [result])
    if len(answers) > 1:
        names = ", ".join(format_gpu(answer["gpu"]) for answer in answers)
        message = f"a job is rendered for one kind of GPU; name one of {names}"
        raise InvalidRequestError(message)
    if result["num_gpus"] is None:
        return _print_count(result)
    print_candidate(word, result["candidates"][0])
    return FITS


def _build_document(options: argparse.Namespace) -> dict[str, object]:
    constraints = {name: getattr(options, name) for name in _CONSTRAINTS}
    return {
        "model": get_model(options),
        "gpu": get_gpu(options),
        **get_cluster(options),
        **build_workload(options),
        "constraints": {name: value for name, value in constraints.items() if value is not None},
        "confidence": get_confidence(options),
        **read_formats(options),
    }
