"""Model that a command line names, as a request's field."""

import argparse

from service.base.errors import InvalidRequestError
from service.cli.model_files.recordings import read_config_or_recording, read_recording
from service.cli.model_files.spelling import adopt_adapter, is_place, read_place


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
