"""Say whether a call of a diffusers pipeline fits on a GPU, phase by phase, and what would help;
offline unless a server is named.
"""

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

from service.base.errors import InvalidRequestError
from service.cli.answer_source import add_source, answer_question, get_source, tell_source
from service.cli.commands.diffusion.files import read_folder, read_recording
from service.cli.confidence import add_confidence
from service.cli.flags import add_gpu, add_schema, get_gpu
from service.cli.printing import print_json
from service.contract.schemas.pipelines.generation import GenerateRequest
from service.terminal.arguments import DOES_NOT_FIT, FITS, TIGHT


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the pipeline, the GPU and the words of a call."""
    parser.usage = "%(prog)s PIPELINE --gpu GPU [WORD …]"
    parser.add_argument(
        "pipeline",
        nargs="?",
        help="a shipped pipeline, as `headroom pipelines` lists them, its id on the hub, or a "
        "folder or zip file with model_index.json and each component's config.json",
    )
    parser.add_argument(
        "--recording", type=Path, metavar="FILE", help="what `headroom pipelines record` wrote"
    )
    add_schema(parser, "call", GenerateRequest)
    add_gpu(parser)
    add_confidence(parser)
    parser.add_argument(
        "--strict", action="store_true", help="leave with 3 in place of 0 where it is tight"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the answer as POST /v1/pipelines/fit sends it"
    )
    add_source(parser, "release")


def run(options: argparse.Namespace) -> int:
    """Print the answer.

    The code is 0 when it fits, 1 when it does not; where it is tight 0, or 3 if that is told apart.
    """
    source = get_source(options)
    subject, pipeline = _get_pipeline(options)
    document = {
        "pipeline": pipeline,
        "gpu": get_gpu(options),
        "workload": _get_workload(options),
        "confidence": options.confidence,
    }
    result = answer_question("generate", document, source)
    if options.json:
        print_json(result)
    else:
        # As for a fit: who reads JSON does not wait for tables.
        view = import_module("service.cli.views.fit")
        view.show_fit(f"{subject} on {options.gpu or options.gpu_memory}, 1 GPU", result)
    tell_source(source, is_json=options.json)
    codes = {"does_not_fit": DOES_NOT_FIT, "tight": TIGHT if options.strict else FITS}
    return codes.get(result["verdict"], FITS)


def _get_pipeline(options: argparse.Namespace) -> tuple[str, object]:
    """Return what the pipeline is called, and its reference."""
    if (options.pipeline is None) == (options.recording is None):
        message = "which pipeline? give a name, a folder, or --recording FILE"
        raise InvalidRequestError(message)
    if options.recording is not None:
        return str(options.recording), {"recording": read_recording(options.recording)}
    path = Path(options.pipeline)
    if path.is_dir() or path.suffix == ".zip":
        return path.name, read_folder(path)
    return options.pipeline, options.pipeline


def _get_workload(options: argparse.Namespace) -> dict[str, Any]:
    return {
        name: value
        for name in GenerateRequest.__struct_encode_fields__
        if (value := vars(options).get(f"workload.{name}")) is not None
    }
