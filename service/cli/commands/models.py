"""List, show, store and delete the models of a server; without one the catalogue of this
installation is listed and shown.
"""

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from msgspec import to_builtins

from service.base.errors import InvalidRequestError, ServiceError, UnavailableError
from service.catalog.models import find_model, list_all_models
from service.catalog.spellings import read_spelling
from service.cli.flags import add_head
from service.cli.http import Document, ask, build_path, connect
from service.cli.ignored import refuse_ignored
from service.cli.model_files.naming import get_head
from service.cli.model_files.recordings import read_config_or_recording
from service.cli.model_files.spelling import is_place, read_place
from service.cli.printing import print_json
from service.cli.resources import (
    ACTIONS,
    add_actions,
    require_name,
    run_action,
    translate_to_command,
)
from service.cli.views.tables import add_title, make_console, make_table, show_bytes
from service.cli.watching import RECORDING, REFUSED, wait_for_recording
from service.contract.to_answer.catalogue_models import build_catalogue_item, build_catalogue_model
from service.estimator.values.units import format_count
from service.terminal.controls import spell_controls

_PUSH, _RECORD = "push", "record"
_READING = frozenset({"list", "show"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, the model and its config."""
    add_actions(parser, noun="model", actions=(*ACTIONS, _PUSH, _RECORD))
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a Hugging Face config.json, for add and replace",
    )
    parser.add_argument(
        "--name",
        dest="stored_name",
        metavar="NAME",
        help="the name to store under, for push; push takes a directory, a .gguf or .safetensors "
        "file, a name that Ollama has, or hub:org/name, and sends their headers alone",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where record writes, compressed where it ends in .gz (default: beside the config); "
        "record takes a config.json of any type that transformers knows, and runs its code on "
        "this machine without weights",
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="with add and replace: wait until a type that has no module is recorded by a worker",
    )
    add_head(parser)
    parser.add_argument(
        "--offline",
        action="store_true",
        help="list or show the catalogue of this installation, and ask no server",
    )


def run(options: argparse.Namespace) -> int:
    """Run the action and print its result."""
    if options.action == _PUSH:
        return _push(options)
    if options.action == _RECORD:
        refuse_ignored(options, "models record", takes=("name", "output"))
        # Only here is a process started that loads torch.
        return int(import_module("service.cli.model_files.recorder").record(options))
    is_own = options.action in _READING and options.server is None
    if options.offline:
        if not is_own:
            message = f"{options.action} is a server's matter: leave out --offline"
            raise InvalidRequestError(message)
        return _run_offline(options)
    try:
        return _run_on_server(options)
    except UnavailableError as error:
        # Nobody named a server, and none runs here: what needs none is answered all the same.
        if not is_own or os.environ.get("HEADROOM_URL"):
            raise
        code = _run_offline(options)
        sys.stderr.write(f"headroom: the catalogue of this installation; {error.detail}\n")
        return code


def _push(options: argparse.Namespace) -> int:
    """Store the model at a place of this machine, by the headers of its files."""
    refuse_ignored(options, "models push", takes=("name", "stored_name", "head", "num_labels"))
    if options.name is None or options.stored_name is None or not is_place(options.name):
        message = (
            "push needs a place and a name: headroom models push ./model --name NAME; a place is a "
            "directory such as ./model, a file, a name that Ollama has, or hub:org/name"
        )
        raise InvalidRequestError(message)
    brought = read_place(options.name)
    if "adapter" in brought:
        message = f"it is an adapter of {brought['base']}: push that model"
        raise InvalidRequestError(message)
    source = {name: value for name, value in brought.items() if name != "origin"}
    body = {"name": options.stored_name, "source": {**source, **get_head(options)}}
    with connect(options.server) as client:
        try:
            model = ask(client, "POST", build_path("models"), body=body).json()
        except ServiceError as error:
            command = f"models replace {options.stored_name}"
            raise ServiceError(translate_to_command(error.detail, command)) from error
    print_json(model) if options.json else _show_one(model)
    return 0


def _run_on_server(options: argparse.Namespace) -> int:
    def show(model: Document) -> None:
        print_json(model) if options.json else _show_one(model)

    def wait_and_show(model: Document) -> None:
        with connect(options.server) as client:
            show(wait_for_recording(client, model))

    # The server's JSON is printed once, and at the end.
    quiet = argparse.Namespace(**{**vars(options), "json": False}) if options.wait else options
    return run_action(
        quiet,
        "models",
        body=lambda: _read_body(options),
        show_list=_show_list,
        show_one=wait_and_show if options.wait else _show_one,
    )


def _run_offline(options: argparse.Namespace) -> int:
    """List or show the models of the catalogue."""
    require_name(options, "models")
    if options.action == "list":
        items = [to_builtins(build_catalogue_item(entry)) for entry in list_all_models()]
        print_json(items) if options.json else _show_list(items)
        return 0
    entry = find_model(options.name) or read_spelling(options.name).entry
    if entry is None:
        message = f"{options.name!r} is a size, and no model; `headroom models` lists every name"
        raise InvalidRequestError(message)
    model = to_builtins(build_catalogue_model(entry))
    print_json(model) if options.json else _show_one(model)
    return 0


def _read_body(options: argparse.Namespace) -> Document:
    if options.config is None:
        message = "which model? name its config.json with --config FILE"
        raise InvalidRequestError(message)
    return {"source": {**read_config_or_recording(options.config), **get_head(options)}}


def _show_list(items: list[Document]) -> None:
    rows = [
        (
            item["name"],
            item["family"] or "not modelled yet",
            item["origin"] if item["state"] == "ready" else item["state"],
            str(item["revision"]),
            ", ".join(item["aliases"]),
        )
        for item in items
    ]
    table = make_table(
        ("name", "family", "origin", "revision", "aliases"), rows, right=("revision",)
    )
    # A name that is broken over lines cannot be copied.
    table.columns[0].no_wrap = True
    make_console().print(table)


def _show_one(model: Document) -> None:
    parameters = model["parameters"]
    if parameters is None:
        sys.stdout.write(
            f"{spell_controls(model['name'])} · {model['family']} · revision {model['revision']}\n"
        )
        _show_recording(model)
        return
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
    _show_recording(model)
    if model.get("gguf"):
        types = ", ".join(
            f"{kind} {show_bytes(size)}" for kind, size in model["gguf"]["by_type"].items()
        )
        screen.print(f"file: {show_bytes(model['gguf']['total_bytes'])} ({types})")
    for warning in model["warnings"]:
        screen.print(f"warning: {warning}")


def _show_recording(model: Document) -> None:
    """Say how far a model's recording is, or why there is none."""
    recording = model.get("recording")
    if recording is None:
        return
    if model["state"] == RECORDING:
        sys.stdout.write(f"recording: {recording['progress']:.0%}, {recording['phase']}\n")
    elif model["state"] == REFUSED:
        sys.stdout.write(f"refused: {spell_controls(recording['reason'])}\n")
