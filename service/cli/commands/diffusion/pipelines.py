"""List the pipelines of diffusers that are shipped, show one, or record one from its configs;
offline unless a server is named.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from gzip import compress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from service.base.errors import InvalidRequestError
from service.catalog.pipelines.shipped import list_pipeline_names, load_pipeline
from service.cli.answer_source import add_source
from service.cli.commands.diffusion.files import read_folder
from service.cli.lists import Document, list_documents
from service.cli.printing import print_json
from service.cli.views.tables import add_title, make_console, make_table, show_bytes
from service.contract.to_answer.pipelines.shipped import build_pipeline

_RECORD = "record"
_COLUMNS = ("pipeline", "class", "makes", "parameters", "weights in bf16")
_PARTS = ("component", "class", "parameters", "bf16", "fp32")
_PACKAGES = ("torch", "transformers", "diffusers")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the pipeline that is shown, or the folder that is recorded."""
    parser.usage = "%(prog)s [NAME | record FOLDER [-o FILE]] [--json]"
    parser.add_argument("name", nargs="?", help="show this pipeline, or `record`")
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        help="after `record`: a folder or zip file with model_index.json and each component's "
        "config.json",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="where the recording is written"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the items as GET /v1/pipelines sends them"
    )
    add_source(parser, "pipelines")


def run(options: argparse.Namespace) -> int:
    """Print the pipelines, or one of them, or record one."""
    if options.name == _RECORD:
        return _record(options)
    items = list_documents(
        options,
        "pipelines",
        lambda: (build_pipeline(load_pipeline(n)) for n in list_pipeline_names()),
    )
    if options.name is not None:
        name = load_pipeline(options.name).name
        items = [item for item in items if item["name"] == name]
    if options.json:
        print_json(items)
    elif options.name is not None:
        _show_one(items[0])
    else:
        make_console().print(
            make_table(_COLUMNS, list(map(_format_row, items)), right=_COLUMNS[3:])
        )
    return 0


def _format_row(item: Document) -> tuple[str, ...]:
    parts = item["components"]
    return (
        item["name"],
        item["class_name"],
        "videos" if item["makes_video"] else "images",
        f"{sum(part['num_parameters'] for part in parts):,}",
        show_bytes(sum(part["weight_bytes"]["bf16"] for part in parts)),
    )


def _show_one(item: Document) -> None:
    screen = make_console()
    rows = [
        (
            part["name"],
            part["class_name"],
            f"{part['num_parameters']:,}",
            show_bytes(part["weight_bytes"]["bf16"]),
            show_bytes(part["weight_bytes"]["fp32"]),
        )
        for part in item["components"]
    ]
    table = make_table(_PARTS, rows, right=_PARTS[2:])
    screen.print(add_title(f"{item['name']}: {item['class_name']}", table))
    for part in item["components"]:
        if part["source"]:
            screen.print(f"{part['name']}: {part['source']}", markup=False)


def _record(options: argparse.Namespace) -> int:
    """Record a folder in another process, and write the document."""
    if options.folder is None:
        message = "which pipeline? headroom pipelines record FOLDER [-o FILE]"
        raise InvalidRequestError(message)
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        message = (
            f"recording runs diffusers' own code and needs {' and '.join(missing)}, not installed "
            "here: pip install 'gpu-headroom[diffusion]', or record where they are and bring the "
            "file, --recording FILE"
        )
        raise InvalidRequestError(message)
    target = options.output or Path(f"{options.folder.name.removesuffix('.zip')}.recording.json.gz")
    document = record_document(read_folder(options.folder))
    target.write_bytes(compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0))
    sys.stdout.write(
        f"{target} is a recording of {document['class']}: `headroom generate --recording {target} "
        "…` answers from it\n"
    )
    return 0


def record_document(
    source: dict[str, Any],
    command: Sequence[str] = (sys.executable, "-m", "worker.probes.pipelines"),
) -> dict[str, Any]:
    """Return the recording of a pipeline's files, telling progress on stderr.

    Raises InvalidRequestError with the reason where there is none.
    """
    with subprocess.Popen(  # noqa: S603 - our own module, its input on stdin
        list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None  # noqa: S101 - as asked for
        assert process.stdout is not None  # noqa: S101 - as asked for
        process.stdin.write(json.dumps(source))
        process.stdin.close()
        for line in process.stdout:
            message = json.loads(line)
            if message["kind"] == "progress":
                sys.stderr.write(f"headroom: {message['phase']}\n")
            elif message["kind"] == "recorded":
                document: dict[str, Any] = message["document"]
                return document
            else:
                raise InvalidRequestError(message["message"])
    message = f"the recorder ended with {process.returncode} and no recording"
    raise InvalidRequestError(message)
