"""Tasks that a command's flags tell."""

import argparse

from msgspec import Struct

from service.base.errors import InvalidRequestError
from service.contract.schemas.serving import ServeRequest
from service.contract.schemas.workload import TrainRequest

TASKS: dict[str, type[Struct]] = {"train": TrainRequest, "serve": ServeRequest}


def infer_task(options: argparse.Namespace) -> str:
    """Return the one task that knows every flag that is set."""
    paths = [dest.split(".") for dest, value in vars(options).items() if value is not None]
    flags = {path[1] for path in paths if path[0] == "workload"}
    tasks = [task for task, kind in TASKS.items() if flags <= {*kind.__struct_encode_fields__}]
    if len(tasks) != 1:
        message = "which task? give --task train or --task serve"
        raise InvalidRequestError(message)
    return tasks[0]
