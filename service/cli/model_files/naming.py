"""Model that a command line names, as a request's field."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.base.errors import InvalidRequestError
from service.cli.model_files.adapters import METHOD
from service.cli.model_files.brought import Brought
from service.cli.model_files.recordings import read_config_or_recording, read_recording
from service.cli.model_files.spelling import is_place, read_place
from service.cli.model_files.tasks import infer_task
from service.formats.checkpoints.repository import CONFIG

_LOW_RANK = frozenset({"lora", "qlora"})


def get_model(options: argparse.Namespace) -> object:
    """Return the request's ``model``; one that a launch describes is whole already."""
    described: object = getattr(options, "launch_model", None)
    if described is not None:
        return described
    recording = getattr(options, "recording", None)
    if [options.model, options.config, recording].count(None) != 2:  # noqa: PLR2004 - two of three are left out
        message = (
            "which model? give either a name, such as llama-2-7b, or --config FILE, or --recording "
            "FILE"
        )
        raise InvalidRequestError(message)
    other = get_head(options)
    if is_place(options.model):
        return {**adopt_adapter(read_place(options.model), options), **other}
    if recording is not None:
        return {"recording": read_recording(recording), **other}
    if options.config is not None:
        return {**read_config_or_recording(options.config), **other}
    return {"name": options.model, **other} if other else options.model


def name_model(options: argparse.Namespace) -> object:
    """Return what the command line calls its model, if it names one."""
    return options.model or options.config or getattr(options, "recording", None)


def get_head(options: argparse.Namespace) -> dict[str, object]:
    """Return the fields of a request's ``model`` that say another head."""
    fields = {"head": options.head, "num_labels": options.num_labels}
    return {name: value for name, value in fields.items() if value is not None}


def adopt_adapter(brought: Brought, options: argparse.Namespace) -> Brought:
    """Return the base of an adapter, if a model is one.

    Its numbers become defaults of a training. What the command line says of them wins. Any other
    model is returned as it is.
    """
    adapter: dict[str, Any] | None = brought.get("adapter")
    if adapter is None:
        return brought
    if options.task is None:
        options.task = infer_task(options)
    base = brought["base"]
    numbers = [f"{dest.partition('.')[2]} {value}" for dest, value in adapter.items()]
    _tell(f"an adapter of {base}: {', '.join(numbers)}")
    if options.task != "train":
        _tell("it counts as merged into its base; vLLM's slots beside it are --max-loras")
    elif not _suits(adapter, getattr(options, METHOD, None)):
        _tell(f"it is left out: the method is {getattr(options, METHOD)}")
    else:
        for dest, value in adapter.items():
            if getattr(options, dest, None) is None:
                setattr(options, dest, value)
        for left_out in brought["left_out"]:
            _tell(f"not counted: {left_out}")
    if is_place(base):
        return read_place(base)
    # transformers takes a directory of that name before it asks a hub.
    if (Path(base) / CONFIG).is_file():
        return read_place(str(Path(base).resolve()))
    return {"name": base}


def _suits(adapter: Mapping[str, Any], method: str | None) -> bool:
    """Return whether an adapter is trained by a command's method."""
    named = adapter[METHOD]
    return method in {None, named} or {named, method} <= _LOW_RANK


def _tell(text: str) -> None:
    sys.stderr.write(f"headroom: {text}\n")
