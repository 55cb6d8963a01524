"""List, show, store and delete the models of a server."""

import argparse
from pathlib import Path

from service.base.errors import InvalidRequestError
from service.cli.files import read_object
from service.cli.flags import add_head, get_head
from service.cli.http import Document
from service.cli.resources import add_actions, run_action
from service.cli.views.tables import add_title, make_console, make_table, show_bytes
from service.estimator.values.units import format_count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, the model and its config."""
    add_actions(parser, noun="model")
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a Hugging Face config.json, for add and replace",
    )
    add_head(parser)


def run(options: argparse.Namespace) -> int:
    """Run the action and print its result."""
    return run_action(
        options,
        "models",
        body=lambda: _read_body(options),
        show_list=_show_list,
        show_one=_show_one,
    )


def _read_body(options: argparse.Namespace) -> Document:
    if options.config is None:
        message = "which model? name its config.json with --config FILE"
        raise InvalidRequestError(message)
    return {"source": {"hf_config": read_object(options.config), **get_head(options)}}


def _show_list(items: list[Document]) -> None:
    rows = [
        (
            item["name"],
            item["family"] or "not modelled yet",
            item["origin"],
            str(item["revision"]),
            ", ".join(item["aliases"]),
        )
        for item in items
    ]
    make_console().print(
        make_table(("name", "family", "origin", "revision", "aliases"), rows, right=("revision",))
    )


def _show_one(model: Document) -> None:
    parameters = model["parameters"]
    rows = [(name, f"{count:,}") for name, count in parameters["by_module"].items()]
    rows += [
        ("total", f"{parameters['total']:,}"),
        ("active for one token", f"{parameters['active']:,}"),
    ]
    title = (
        f"{model['name']} · {model['family']} · {format_count(parameters['total'])} parameters · "
        f"revision {model['revision']}"
    )
    screen = make_console()
    screen.print(add_title(title, make_table(("parameters", ""), rows, right=("",))))
    screen.print(
        "weights: "
        + ", ".join(
            f"{show_bytes(size)} in {dtype}" for dtype, size in model["weight_bytes"].items()
        ),
    )
    for warning in model["warnings"]:
        screen.print(f"warning: {warning}")
