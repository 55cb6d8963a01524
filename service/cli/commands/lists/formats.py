"""List the formats of schedulers that ``--format`` takes, and what each carries; offline unless a
server is named.
"""

import argparse

from service.cli.answer_source import add_source
from service.cli.lists import Document, list_documents
from service.cli.printing import print_json
from service.cli.views.tables import make_console, make_table
from service.contract.to_answer.formats.renderings import build_format
from service.formats.manifests.registry import FORMATS

_COLUMNS = ("format", "what it is", "carries", "GPUs of")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the server that may be asked."""
    parser.add_argument(
        "--json", action="store_true", help="print the items as GET /v1/formats sends them"
    )
    add_source(parser, "formats")


def run(options: argparse.Namespace) -> int:
    """Print the formats."""
    items = list_documents(options, "formats", lambda: map(build_format, FORMATS.values()))
    if options.json:
        print_json(items)
    else:
        make_console().print(make_table(_COLUMNS, [_format_row(item) for item in items]))
    return 0


def _format_row(item: Document) -> tuple[str, ...]:
    carried = {
        "jobs": item["trains"],
        "servers": item["serves"],
        "several nodes": item["spans_nodes"],
        "MIG slices": item["takes_slices"],
    }
    return (
        item["word"],
        item["title"],
        ", ".join(name for name, is_carried in carried.items() if is_carried),
        ", ".join(item["vendors"] or ("all",)),
    )
