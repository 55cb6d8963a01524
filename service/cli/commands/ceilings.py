"""Say the largest batch, sequence, load, LoRA rank or model that still fits, and what one more lacks; offline unless told."""

import argparse
from importlib import import_module

from service.base.errors import InvalidRequestError
from service.cli.answer_source import answer
from service.cli.confidence import add_search_confidence, confidence_of
from service.cli.flags import add_gpu, add_question, gpu_of, model_of, number, words_of
from service.cli.printing import print_json
from service.planner.plans.ceiling_values import Maximized
from service.terminal.arguments import DOES_NOT_FIT, FITS, one_of, shown

_WORDS = tuple(word.value for word in Maximized)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take a model, a GPU, the work, and the word of it that is made as large as it goes."""
    add_question(parser, usage="%(prog)s MODEL --gpu GPU --task train|serve --maximize WORD [WORD …]")
    add_gpu(parser)
    search = parser.add_argument_group("search")
    search.add_argument("--maximize", type=one_of(_WORDS), metavar=shown(_WORDS), help="what is made as large as it goes")
    search.add_argument("--num-gpus", type=number, metavar="N", help="GPUs, in whichever layout goes furthest")
    add_search_confidence(search)
    parser.add_argument("--json", action="store_true", help="print the answer as POST /v1/ceilings sends it")
    parser.add_argument("--server", metavar="URL", help="ask this server, which knows its stored models and measurements")


def run(options: argparse.Namespace) -> int:
    """Print the answer; 0 when there is a value that fits, 1 when not even the least does."""
    found = answer("ceiling", _document(options), server=options.server)
    if options.json:
        print_json(found)
    else:
        # As for a fit: who reads JSON does not wait for tables.
        view = import_module("service.cli.views.ceilings")
        view.show_ceiling(str(options.model or options.config or "a model of its own size"), found)
    return DOES_NOT_FIT if found["value"] is None else FITS


def _document(options: argparse.Namespace) -> dict[str, object]:
    if options.maximize is None:
        message = f"the largest what? give --maximize {'|'.join(_WORDS)}"
        raise InvalidRequestError(message)
    document = {
        "gpu": gpu_of(options),
        **words_of(options),
        "maximize": options.maximize,
        "confidence": confidence_of(options),
    }
    if options.num_gpus is not None:
        document["num_gpus"] = options.num_gpus
    if options.maximize != Maximized.NUM_PARAMETERS:
        document["model"] = model_of(options)
    elif options.model is not None or options.config is not None:
        message = "--maximize num_parameters asks for a size, of scaled models; leave the model out"
        raise InvalidRequestError(message)
    return document
