"""Questions of commands whose flags a launch replaces."""

import argparse
from functools import partial
from typing import Any

from service.cli.answer_source import Source, answer_question
from service.cli.flags import collect_fields, get_gpu, get_model
from service.cli.launch.files import has_launch, import_launch


def take_launch(options: argparse.Namespace, source: Source, *, keeps_layout: bool = True) -> None:
    """Put what a launch says in the place of flags; nothing where none is given.

    Where the layout is searched (``keeps_layout`` False), what the launch says of it is left out
    and what flags say stays.
    """
    if not has_launch(options):
        return
    task = {} if options.task is None else {"workload": {"task": options.task}}
    said: dict[str, Any] = collect_fields(options, task)
    if options.model is not None or options.config is not None:
        said["model"] = get_model(options)
    if getattr(options, "gpu", None) is not None:
        said["gpu"] = get_gpu(options)
    layout = said.get("layout", {})
    ask = partial(answer_question, "launch", source=source)
    question = import_launch(options, said, ask)
    if options.config is None:
        options.model = question["model"]
    options.task = question["workload"]["task"]
    options.launch_question = {
        "workload": question["workload"],
        "layout": question.get("layout", {}) if keeps_layout else layout,
    }
