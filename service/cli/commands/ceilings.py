"""Say the largest batch, sequence, load, LoRA rank or model that still fits, and what one more
lacks; offline unless told.
"""

import argparse
from importlib import import_module

from service.base.errors import InvalidRequestError
from service.cli.answer_source import (
    add_cluster,
    add_source,
    answer_question,
    get_cluster,
    get_source,
    tell_source,
)
from service.cli.confidence import add_search_confidence, get_confidence
from service.cli.flags import add_gpu, add_question, build_workload, get_gpu, parse_number
from service.cli.launch.questions import add_launch, take_launch, tell_bound
from service.cli.model_files.naming import get_model, name_model
from service.cli.printing import print_json
from service.contract.other_words import list_other_words
from service.planner.plans.ceiling_values import Maximized
from service.terminal.arguments import DOES_NOT_FIT, FITS, format_choices, make_choice_reader

_MAXIMIZED = tuple(word.value for word in Maximized)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model, GPU, workload and the field to maximize."""
    add_question(
        parser, usage="%(prog)s MODEL --gpu GPU --task train|serve --maximize WORD [WORD …]"
    )
    add_launch(parser)
    add_gpu(parser)
    add_cluster(parser)
    search = parser.add_argument_group("search")
    search.add_argument(
        "--maximize",
        type=make_choice_reader(_MAXIMIZED, list_other_words(Maximized)),
        metavar=format_choices(_MAXIMIZED),
        help="what is made as large as it goes",
    )
    search.add_argument(
        "--num-gpus", type=parse_number, metavar="N", help="GPUs, in whichever layout goes furthest"
    )
    add_search_confidence(search)
    parser.add_argument(
        "--json", action="store_true", help="print the answer as POST /v1/ceilings sends it"
    )
    add_source(parser, "stored models and measurements")


def run(options: argparse.Namespace) -> int:
    """Print the answer.

    The code is 0 when there is a value that fits, 1 when not even the smallest does.
    """
    source = get_source(options)
    # The command says what is searched; no launch need say it too.
    take_launch(options, source, searched=f"workload.{options.maximize}", bounds=True)
    tell_bound(options, "at most this")
    result = answer_question("ceiling", _build_document(options), source)
    if options.json:
        print_json(result)
    else:
        # As for a fit: who reads JSON does not wait for tables.
        view = import_module("service.cli.views.ceilings")
        view.show_ceiling(str(name_model(options) or "a model of its own size"), result)
    tell_source(source, is_json=options.json)
    return DOES_NOT_FIT if result["value"] is None else FITS


def _build_document(options: argparse.Namespace) -> dict[str, object]:
    if options.maximize is None:
        message = f"the largest what? give --maximize {'|'.join(_MAXIMIZED)}"
        raise InvalidRequestError(message)
    document = {
        "gpu": get_gpu(options),
        **get_cluster(options),
        **build_workload(options),
        "maximize": options.maximize,
        "confidence": get_confidence(options),
    }
    if options.num_gpus is not None:
        document["num_gpus"] = options.num_gpus
    if options.maximize != Maximized.NUM_PARAMETERS:
        document["model"] = get_model(options)
    elif name_model(options) is not None:
        message = "--maximize num_parameters asks for a size, of scaled models; leave the model out"
        raise InvalidRequestError(message)
    return document
