"""Tasks that a command's flags tell."""

import argparse

from msgspec import Struct

from service.base.errors import InvalidRequestError
from service.contract.schemas.serving import ServeRequest
from service.contract.schemas.workload import TrainRequest

TASKS: dict[str, type[Struct]] = {"train": TrainRequest, "serve": ServeRequest}
_OF_ONE_TASK = {
    name
    for kind in TASKS.values()
    for name in kind.__struct_encode_fields__
    if sum(name in other.__struct_encode_fields__ for other in TASKS.values()) == 1
}


def infer_task(options: argparse.Namespace) -> str:
    """Return the one task that knows every flag that is set.

    What a search makes as large as it goes tells it too.
    """
    paths = [dest.split(".") for dest, value in vars(options).items() if value is not None]
    flags = {path[1] for path in paths if path[0] == "workload"}
    flags |= _OF_ONE_TASK & {str(getattr(options, "maximize", None))}
    tasks = [task for task, kind in TASKS.items() if flags <= {*kind.__struct_encode_fields__}]
    if len(tasks) != 1:
        message = "which task? give --task train or --task serve"
        raise InvalidRequestError(message)
    return tasks[0]
