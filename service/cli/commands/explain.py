"""Say why a run failed for memory, from its log, its error message or its memory snapshot, and what
would have fitted; with a model and a GPU also what was predicted. Offline unless a server is named.
"""

import argparse
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
from service.cli.confidence import add_confidence
from service.cli.flags import add_gpu, add_question, build_workload, get_gpu
from service.cli.launch.questions import add_launch, take_launch
from service.cli.model_files.naming import get_model, name_model
from service.cli.printing import print_json
from service.terminal.arguments import DOES_NOT_FIT, FITS

NOT_MEMORY = DOES_NOT_FIT
"""The run failed, and no memory was lacking."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the log, and the question that it is the log of."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help="the log, the error message or the memory snapshot; - is stdin",
    )
    add_question(parser, usage="%(prog)s FILE [MODEL --gpu GPU --task train|serve [WORD …]]")
    add_launch(parser)
    add_gpu(parser)
    add_cluster(parser)
    add_confidence(parser)
    parser.add_argument(
        "--json", action="store_true", help="print the answer as POST /v1/explain sends it"
    )
    add_source(parser, "stored models and measurements")


def run(options: argparse.Namespace) -> int:
    """Print the explanation.

    The code is 0 where memory ran out, 1 where the run failed of something else, and 2 where
    nothing is told.
    """
    source = get_source(options)
    take_launch(options, source)
    document: dict[str, Any] = {"file": options.file}
    question = _build_question(options)
    if question is not None:
        document["question"] = question
    result = answer_question("explain", document, source)
    if options.json:
        print_json(result)
    else:
        view = import_module("service.cli.views.explain")
        view.show_explanation("stdin" if options.file == "-" else options.file, result)
    tell_source(source, is_json=options.json)
    return NOT_MEMORY if result["memory"] == "none" else FITS


def _build_question(options: argparse.Namespace) -> dict[str, Any] | None:
    """Return what ran, ``None`` where nothing of it is said."""
    named = name_model(options) is not None
    if not named:
        spelled = [flag for dest, flag in options.provided.items() if dest not in _OWN]
        if spelled:
            message = f"{spelled[0]} says what ran, and no model does: give its name or --config"
            raise InvalidRequestError(message)
        return None
    return {
        "model": get_model(options),
        "gpu": get_gpu(options),
        **get_cluster(options),
        **build_workload(options),
        "confidence": options.confidence,
    }


_OWN = frozenset({"file", "json", "server", "offline", "launch_files", "launch_command"})
