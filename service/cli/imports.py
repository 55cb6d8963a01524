"""Import of files that were measured without a probe."""

import argparse
import base64
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from httpx import Client

from service.base.errors import InvalidRequestError, ServiceError
from service.cli.flags import add_head, build_workload
from service.cli.http import Document, ask, build_path
from service.cli.model_files.json_files import read_object
from service.cli.model_files.naming import get_model, name_model
from service.cli.schema_flags import translate_to_flags
from service.contract.schemas.imports.measurements import MAX_IMPORT_BYTES
from service.formats.measured.reading import Format
from service.terminal.arguments import format_choices, make_choice_reader

FORMATS = tuple(member.value for member in Format)
STDIN = "-"


def add_import(group: argparse._ArgumentGroup) -> None:
    """Add the flags of an import."""
    group.add_argument(
        "--format",
        type=make_choice_reader(FORMATS),
        metavar=format_choices(FORMATS),
        help="whose file it is (default: told from the file)",
    )
    group.add_argument(
        "--config", type=Path, metavar="FILE", help="a Hugging Face config.json in place of --model"
    )
    add_head(group)
    group.add_argument(
        "--match",
        action="append",
        type=_parse_pair,
        metavar="WORD=VALUE",
        help=(
            "only readings taken there: job, name, step, host, gpu or pid; may be given several "
            "times"
        ),
    )
    group.add_argument(
        "--jobs",
        type=Path,
        metavar="FILE",
        help='a JSON object {"jobs": [{"match": {…}, "workload": {…}}]}',
    )
    group.add_argument(
        "--environment",
        action="append",
        type=_parse_pair,
        metavar="WORD=VALUE",
        help="what the file does not say: driver, cuda, torch, transformers, peft, allocator",
    )
    group.add_argument(
        "--cluster",
        metavar="NAME",
        help="the stored cluster that it ran on, whose answers it corrects first",
    )
    group.add_argument(
        "--yes", action="store_true", help="store it; without, only what would be stored is shown"
    )


def _parse_pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        message = f"{text!r} is no WORD=VALUE"
        raise argparse.ArgumentTypeError(message)
    return name, value


def send_file(client: Client, name: str, question: Document, *, dry_run: bool) -> Document:
    """Send a file with its question, and return the answer."""
    body = {**question, **_read_content(name), "dry_run": dry_run}
    try:
        answer: Document = ask(
            client, "POST", build_path("measurements", "import"), body=body
        ).json()
    except ServiceError as error:
        message = f"{name}: {translate_to_flags(error.detail)}"
        raise ServiceError(message) from None
    return answer


def _read_content(name: str) -> Document:
    try:
        data = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except OSError as error:
        message = f"cannot read {name}: {error.strerror}"
        raise InvalidRequestError(message) from None
    try:
        content: Document = {"content": data.decode("utf-8")}
        size = len(data)
    except UnicodeDecodeError:
        encoded = base64.b64encode(data).decode()
        content, size = {"content_base64": encoded}, len(encoded)
    if size > MAX_IMPORT_BYTES:
        message = (
            f"{name} has {len(data):,} bytes, and a server reads {MAX_IMPORT_BYTES:,} at once: cut "
            "a log to its start-up, or write json.dumps(torch.cuda.memory_stats()) in place of a "
            "snapshot"
        )
        raise InvalidRequestError(message)
    return content


def build_question(options: argparse.Namespace) -> Document:
    """Return the import request without its file.

    It says what ran, and which readings are of it.
    """
    question: dict[str, Any] = {} if options.jobs is None else read_object(options.jobs)
    if name_model(options) is not None:
        question["model"] = get_model(options)
    if options.task is not None:
        question |= build_workload(options)
    for name in ("gpu", "format", "cluster"):
        if getattr(options, name) is not None:
            question[name] = getattr(options, name)
    if options.match:
        question["match"] = _build_match(options.match)
    if options.environment:
        question["environment"] = dict(options.environment)
    if options.jobs is None and not {"model", "workload"} <= question.keys():
        message = (
            "what ran? give --model NAME (or --config FILE) and --task train|serve with its words, "
            "or --jobs FILE"
        )
        raise InvalidRequestError(message)
    return question


def _build_match(pairs: Sequence[tuple[str, str]]) -> Document:
    return {
        name: int(value) if name == "pid" and value.isdigit() else value for name, value in pairs
    }
