"""How far answers were from what a server measured, before and after it learnt from the others."""

import argparse

from service.cli.http import Document, add_server, build_path, connect, read
from service.cli.printing import print_json
from service.cli.views.tables import add_title, make_console, make_table
from service.terminal.arguments import format_choices, make_choice_reader

QUANTITIES = ("allocated", "reserved", "device", "step_time", "prefill_time")
DEVICES = ("cpu", "trace", "cuda")
_COLUMNS = (
    "kind",
    "quantity",
    "measured",
    "median",
    "p95",
    "bias",
    "covered",
    "after: median",
    "p95",
    "bias",
    "covered",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the filters of measurements."""
    parser.add_argument("--family", metavar="NAME", help="of models of this family, such as llama")
    parser.add_argument("--gpu", metavar="NAME", help="on this GPU")
    parser.add_argument(
        "--device",
        type=make_choice_reader(DEVICES),
        metavar=format_choices(DEVICES),
        help="by probes of this kind",
    )
    parser.add_argument(
        "--quantity",
        type=make_choice_reader(QUANTITIES),
        metavar=format_choices(QUANTITIES),
        help="of this quantity",
    )
    parser.add_argument(
        "--since", metavar="TIME", help="measured at or after this time, as in 2026-01-31T00:00:00Z"
    )
    parser.add_argument("--json", action="store_true", help="print the server's JSON")
    add_server(parser)


def run(options: argparse.Namespace) -> int:
    """Fetch the report and print it, GPU by GPU."""
    filters = {
        name: getattr(options, name) for name in ("family", "gpu", "device", "quantity", "since")
    }
    with connect(options.server) as client:
        report = read(
            client,
            build_path("accuracy"),
            **{name: value for name, value in filters.items() if value is not None},
        )
    if options.json:
        print_json(report)
        return 0
    if not report["classes"]:
        make_console().print("nothing was measured here yet: ask with headroom measure")
        return 0
    for gpu in dict.fromkeys(entry["gpu"] for entry in report["classes"]):
        rows = [_format_row(entry) for entry in report["classes"] if entry["gpu"] == gpu]
        title = (
            "errors of answers: analytic, and after calibration with the measurement held out "
            f"({report['level']:.0%} intervals){'' if gpu is None else f', measured on {gpu}'}"
        )
        make_console().print(add_title(title, make_table(_COLUMNS, rows, right=_COLUMNS[2:])))
    return 0


def _format_row(entry: Document) -> tuple[str, ...]:
    return (
        entry["kind"],
        entry["quantity"],
        str(entry["count"]),
        *_format_errors(entry["before"]),
        *_format_errors(entry["after"]),
    )


def _format_errors(errors: Document) -> tuple[str, ...]:
    covered = "-" if errors["coverage"] is None else f"{errors['coverage']:.0%}"
    return (
        _format_share(errors["median"]),
        _format_share(errors["p95"]),
        f"{errors['bias']:+.3%}",
        covered,
    )


def _format_share(value: float) -> str:
    return f"{value:.3%}"
