"""Listings of nodes, sent to a server."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from httpx import Client

from service.base.errors import InvalidRequestError
from service.cli.http import Document, ask, build_path
from service.cli.launch.texts import decode_text
from service.contract.schemas.inventories.imports import MAX_CONTENTS, MAX_IMPORT_BYTES
from service.formats.inventories.observed import InventoryFormat
from service.planner.cluster.adoption import ImportScope
from service.terminal.arguments import format_choices, make_choice_reader

STDIN = "-"
FIELDS = ("from_files", "format", "node", "gpu", "scope", "tolerate", "apply")
_BULK = ("images", "volumesInUse", "volumesAttached", "managedFields", "nodeInfo")
"""Parts of Kubernetes objects that no reader looks at and that are most of their bytes."""


def add_import(group: argparse._ArgumentGroup) -> None:
    """Add where a listing is from and how it is read."""
    formats, scopes = [
        tuple(word.value for word in kind) for kind in (InventoryFormat, ImportScope)
    ]
    group.add_argument(
        "--from",
        dest="from_files",
        action="append",
        metavar="FILE",
        help="a tool's output, - for stdin; several of one moment, each with its own --from",
    )
    group.add_argument(
        "--format",
        type=make_choice_reader(formats),
        metavar=format_choices(formats),
        help="whose output it is (default: told from it)",
    )
    group.add_argument("--node", help="host of output that does not name it: nvidia-smi's")
    group.add_argument(
        "--gpu",
        action="append",
        type=_parse_gpu,
        metavar="NAME=GPU",
        help="what a tool's name of a GPU means: A100=A100-SXM4-40GB, or zeta9000=24Gi",
    )
    group.add_argument(
        "--scope",
        type=make_choice_reader(scopes),
        metavar=format_choices(scopes),
        help=(
            "which stored nodes go that the output lacks: none, those of the same tool, or all "
            "(default source; named for nvidia-smi and dcgm)"
        ),
    )
    group.add_argument(
        "--tolerate",
        action="append",
        metavar="KEY",
        help="key of a Kubernetes taint that your jobs tolerate",
    )


def build_body(options: argparse.Namespace, contents: Sequence[str]) -> Document:
    """Return the request of an import, without ``apply``."""
    first, *further = (_load(content) for content in contents)
    body: Document = {"content": first}
    if further:
        body["also"] = further
    for name in ("format", "node", "scope"):
        if getattr(options, name):
            body[name] = getattr(options, name)
    if options.gpu:
        body["gpus"] = dict(options.gpu)
    if options.tolerate:
        body["tolerates"] = options.tolerate
    return body


def read_contents(names: Sequence[str] | None) -> list[str]:
    """Return the texts of files, or of stdin for ``-``."""
    if not names:
        message = (
            "which nodes? name a tool's output with --from FILE, or - for stdin: kubectl get "
            "nodes,pods -A -o json | headroom clusters import NAME --from -"
        )
        raise InvalidRequestError(message)
    if len(names) > MAX_CONTENTS:
        message = f"{len(names)} files are too many for one import; at most {MAX_CONTENTS}"
        raise InvalidRequestError(message)
    return [_read_text(name) for name in names]


def send(
    client: Client, name: str, body: Document, *, etag: str | None = None, applies: bool = False
) -> tuple[Document, str | None]:
    """Send an import; return its answer and the stored version."""
    data = json.dumps({**body, "apply": applies})
    if len(data) > MAX_IMPORT_BYTES:
        message = (
            f"the output has {len(data):,} bytes, and a server reads {MAX_IMPORT_BYTES:,} at once: "
            "import parts of the cluster with --scope named"
        )
        raise InvalidRequestError(message)
    answer = ask(
        client,
        "POST",
        build_path("clusters", name, "import"),
        body={**body, "apply": applies},
        headers={} if etag is None else {"if-match": etag},
    )
    return cast("Document", answer.json()), answer.headers.get("etag")


def _load(content: str) -> object:
    """Return JSON without its unread bulk, other text unchanged."""
    if content.lstrip()[:1] not in {"{", "["}:
        return content
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return content
    items = document.get("items") if isinstance(document, dict) else None
    for item in items if isinstance(items, list) else ():
        for part in (item, *(item.get(key) for key in ("metadata", "status"))):
            if isinstance(part, dict):
                for bulk in _BULK:
                    part.pop(bulk, None)
    return document


def _read_text(name: str) -> str:
    try:
        data = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except OSError as error:
        message = f"cannot read {name}: {error.strerror}"
        raise InvalidRequestError(message) from None
    return decode_text(data, name)


def _parse_gpu(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        message = f"{text!r} is no NAME=GPU"
        raise argparse.ArgumentTypeError(message)
    is_memory = value[:1].isdigit() and value.endswith(("i", "iB"))
    return name, {"memory_bytes": value} if is_memory else value
