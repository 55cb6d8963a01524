"""Say whether a workload fits on a GPU, what its memory is made of and what would help; offline
unless a server is named.
"""

import argparse
from importlib import import_module

from service.cli.answer_source import add_source, answer_question, get_source, tell_source
from service.cli.confidence import add_confidence
from service.cli.flags import add_gpu, add_question, build_workload, get_gpu
from service.cli.launch.questions import add_launch, take_launch
from service.cli.model_files.naming import get_model, name_model
from service.cli.printing import print_json
from service.terminal.arguments import DOES_NOT_FIT, FITS, TIGHT


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model, GPU, workload and layout."""
    add_question(parser, usage="%(prog)s MODEL --gpu GPU --task train|serve [WORD …]")
    add_launch(parser)
    add_gpu(parser)
    add_confidence(parser)
    parser.add_argument(
        "--strict",
        action="store_true",
        help="leave with 3 in place of 0 where it is tight: it fits at the point of the interval "
        "and not at its upper end",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the answer as POST /v1/fit sends it"
    )
    add_source(parser, "stored models and measurements")


def run(options: argparse.Namespace) -> int:
    """Print the answer.

    The code is 0 when it fits, 1 when it does not; where it is tight 0, or 3 if that is told apart.
    """
    source = get_source(options)
    take_launch(options, source)
    document = {
        "model": get_model(options),
        "gpu": get_gpu(options),
        **build_workload(options),
        "confidence": options.confidence,
    }
    result = answer_question("fit", document, source)
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
    codes = {"does_not_fit": DOES_NOT_FIT, "tight": TIGHT if options.strict else FITS}
    return codes.get(result["verdict"], FITS)
