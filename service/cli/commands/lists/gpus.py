"""List the GPUs that questions may name, or show one with the source of every figure; offline
unless a server is named.
"""

import argparse
from collections.abc import Iterator

from service.catalog.gpus import find_gpus, list_gpus, resolve_gpu
from service.cli.answer_source import add_source
from service.cli.lists import Document, list_documents
from service.cli.printing import print_json
from service.cli.views.tables import add_title, make_console, make_table, show_bytes
from service.contract.to_answer.gpus import build_gpu
from service.estimator.values.device import parse_slice

_COLUMNS = ("name", "family", "usable", "bandwidth", "bf16 or best", "links", "capability")
_FORMATS = ("bf16", "fp16", "fp32")
_TERA, _GIGA = 10**12, 10**9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the GPU that is shown."""
    parser.add_argument(
        "name", nargs="?", help="show this GPU: a name as questions spell it, or a family"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the items as GET /v1/gpus sends them"
    )
    add_source(parser, "GPUs")


def run(options: argparse.Namespace) -> int:
    """Print the GPUs, or one of them."""
    items = list_documents(options, "gpus", lambda: map(build_gpu, list_gpus()))
    chosen = items if options.name is None else _select(items, options.name)
    if options.json:
        print_json(chosen)
    elif options.name is not None and len(chosen) == 1:
        _show_one(chosen[0])
    else:
        rows = [_format_row(item) for item in chosen]
        make_console().print(make_table(_COLUMNS, rows, right=_COLUMNS[2:]))
    return 0


def _select(items: list[Document], name: str) -> list[Document]:
    """Return the GPUs that a question means by this name, one or several.

    Raises UnknownGpuError for a name of none.
    """
    sku, _ = parse_slice(name) or (name, "")
    names = {entry.name for entry in find_gpus(sku) or (resolve_gpu(sku),)}
    return [item for item in items if item["name"] in names]


def _format_row(item: Document) -> tuple[str, ...]:
    flops = item["peak_flops"]
    fastest = next((name for name in _FORMATS if name in flops), None)
    return (
        item["name"],
        item["family"],
        show_bytes(item["usable_bytes"]),
        f"{item['bandwidth_bytes_per_second'] / _GIGA:,.0f} GB/s",
        "-" if fastest is None else f"{flops[fastest] / _TERA:,.0f} TFLOP/s",
        f"{item['link_bytes_per_second'] / _GIGA:,.0f} GB/s",
        item["compute_capability"] or item["gfx_target"] or "-",
    )


def _show_one(item: Document) -> None:
    screen = make_console()
    rows = list(_iter_figures(item))
    screen.print(add_title(item["name"], make_table(("figure", "", "source"), rows, right=("",))))
    if profiles := item["mig_profiles"]:
        columns = ("MIG profile", "at most", "usable")
        slices = [
            (part["name"], str(part["max_instances"]), show_bytes(part["usable_bytes"]))
            for part in profiles
        ]
        screen.print(make_table(columns, slices, right=columns[1:]))
    for system, names in item["aliases"].items():
        screen.print(f"called by {system}: {', '.join(names)}", markup=False, soft_wrap=True)


def _iter_figures(item: Document) -> Iterator[tuple[str, str, str]]:
    sources = item["sources"]
    for name in ("capacity_bytes", "usable_bytes"):
        yield name, f"{item[name]:,}", sources.get(name, "")
    for name in ("bandwidth", "nvlink", "pcie"):
        field = f"{name}_bytes_per_second"
        if item[field] is not None:
            yield field, f"{item[field]:,}", sources.get(field, "")
    for dtype, flops in item["peak_flops"].items():
        yield f"peak_flops.{dtype}", f"{flops:,}", sources.get("peak_flops", "")
    for name in ("compute_capability", "gfx_target"):
        if item[name] is not None:
            yield name, item[name], sources.get(name, "")
