"""Launch files and commands in place of flags.

``headroom fit --from train.yaml`` and ``headroom fit -- vllm serve …``: what a launch says becomes
the question, flags say what it leaves open. What was read is told on stderr, beside the answer.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from service.base.errors import InvalidRequestError
from service.cli.answer_source import Source, answer_question
from service.cli.flags import collect_fields, get_gpu
from service.cli.launch.texts import decode_text
from service.cli.model_files.naming import get_model, name_model
from service.cli.schema_flags import translate_to_flags
from service.cli.starting_load import LOAD, prints_bare
from service.formats.launches.values.fields import place_field
from service.formats.launches.values.launch import Launcher
from service.terminal.arguments import format_choices, make_choice_reader

_LAUNCHERS = tuple(launcher.value for launcher in Launcher)
_EVALUATION = "workload.evaluation."
_UNNAMED = "the launch's model"
"""Name on screen of a model that a launch describes by its sizes."""
_NOTEBOOK = ".ipynb"
_MAX_BYTES = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """Open fields of a launch, and the refusal without them."""

    fields: tuple[str, ...]
    refusal: InvalidRequestError


def add_launch(parser: argparse.ArgumentParser, *, starts: bool = False) -> None:
    """Add files of a launch, and the command after ``--``.

    ``starts`` says that whether a server starts is an answer of the command.
    """
    group = parser.add_argument_group("launch")
    group.add_argument(
        "--from",
        dest="launch_files",
        action="append",
        type=Path,
        metavar="FILE",
        help="a launch file in place of flags, such as train.yaml or ds.json; several times for "
        "several, or a command after --",
    )
    group.add_argument(
        "--launcher",
        type=make_choice_reader(_LAUNCHERS),
        metavar=format_choices(_LAUNCHERS),
        help="whose words the files are, where they do not tell",
    )
    parser.set_defaults(
        launch_command=(), launch_model=None, launch_gaps=None, launch_starts=starts
    )


def take_launch(
    options: argparse.Namespace,
    source: Source,
    *,
    keeps_layout: bool = True,
    searched: str = "gpu",
    evaluates: bool = True,
    bounds: bool = False,
) -> None:
    """Put what a launch says in the place of flags.

    Where the layout is searched (``keeps_layout`` False), what the launch says of it is left out
    and what flags say stays. Fields that begin with ``searched`` may stay open. Where steps alone
    are run (``evaluates`` False), an evaluation is left out, which stderr says. Where a bound is an
    answer (``bounds``), open fields have the value with which memory is least, and
    ``options.launch_gaps`` names them. A server whose load is open has that with which it starts,
    where that is an answer, which stderr says. Nothing is done where no launch is given. Raises
    InvalidRequestError where the launch leaves something open that only flags can say.
    """
    if not (options.launch_files or options.launch_command):
        return
    task = {} if options.task is None else {"workload": {"task": options.task}}
    flags: dict[str, Any] = collect_fields(options, task)
    if name_model(options) is not None:
        flags["model"] = get_model(options)
    if getattr(options, "gpu", None) is not None:
        flags["gpu"] = get_gpu(options)
    layout = flags.get("layout", {})
    answer = _import_launch(options, flags, source)
    if not evaluates:
        _leave_evaluation_out(answer)
    gaps = _list_gaps(answer, searched if keeps_layout else "layout.")
    if options.launch_starts and not prints_bare(options):
        gaps = _assume_load(answer, gaps)
    if gaps:
        refusal = _refuse(answer, gaps)
        if not (bounds and _fill_gaps(answer, gaps)):
            raise refusal
        options.launch_gaps = Gaps(fields=gaps, refusal=refusal)
    question: dict[str, Any] = answer["question"]
    if options.config is None and options.recording is None:
        model = question["model"]
        is_named = isinstance(model, str)
        options.model = model if is_named else options.model or _UNNAMED
        options.launch_model = None if is_named else model
    _take_gpu(options, question.get("gpu"))
    options.task = question["workload"]["task"]
    options.launch_question = {
        "workload": question["workload"],
        "layout": question.get("layout", {}) if keeps_layout else layout,
    }


def tell_bound(options: argparse.Namespace, text: str) -> None:
    """Tell that an answer is a bound.

    It is one where a launch leaves a field open.

    ``text`` says of what. Raises InvalidRequestError where only a number or a job is printed, which
    nobody would take for a bound.
    """
    gaps: Gaps | None = options.launch_gaps
    if gaps is None:
        return
    if prints_bare(options):
        raise gaps.refusal
    fields = translate_to_flags(" and ".join(gaps.fields))
    sys.stderr.write(f"headroom: {text}: the launch leaves {fields} open, and its least counts\n")


def _take_gpu(options: argparse.Namespace, gpu: object) -> None:
    """Put the GPU of a job in the flag's place."""
    is_open = getattr(options, "gpu", "") is None and getattr(options, "gpu_memory", None) is None
    if is_open and isinstance(gpu, str):
        options.gpu = gpu


def _import_launch(
    options: argparse.Namespace, flags: dict[str, Any], source: Source
) -> dict[str, Any]:
    """Return the answer to a launch, with what flags say of it."""
    request: dict[str, Any] = {
        "files": [_read_file(path) for path in options.launch_files or ()],
        **flags,
    }
    if options.launch_command:
        request["command"] = list(options.launch_command)
    if options.launcher is not None:
        request["launcher"] = options.launcher
    answer = answer_question("launch", request, source)
    import_module("service.cli.views.launches").show_launch(answer)
    return answer


def _leave_evaluation_out(answer: dict[str, Any]) -> None:
    """Drop the evaluation of a launch, and what it leaves open."""
    evaluation = answer["question"]["workload"].pop("evaluation", None)
    answer["missing"] = [field for field in answer["missing"] if not field.startswith(_EVALUATION)]
    if evaluation is not None:
        sys.stderr.write(
            "the launch's evaluation is left out: a probe runs steps, and a fit counts the "
            "evaluation beside what it measures\n"
        )


def _read_file(path: Path) -> dict[str, str]:
    try:
        with sys.stdin.buffer if str(path) == "-" else path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise InvalidRequestError(message) from None
    if len(data) > _MAX_BYTES:
        message = f"{path} is larger than {_MAX_BYTES:,} bytes; a launch file has kilobytes"
        raise InvalidRequestError(message)
    text = decode_text(data, str(path))
    if path.suffix.casefold() == _NOTEBOOK:
        text = import_module("service.formats.launches.sources.notebooks").drop_outputs(text)
    return {"name": str(path)[-255:], "content": text}


def _assume_load(answer: dict[str, Any], gaps: Sequence[str]) -> tuple[str, ...]:
    """Give a server without a load one request; returns open fields."""
    if answer["question"]["workload"]["task"] != "serve" or LOAD.keys().isdisjoint(gaps):
        return tuple(gaps)
    for field in LOAD.keys() & set(gaps):
        place_field(answer["question"], field, LOAD[field])
    fields = translate_to_flags(" and ".join(field for field in LOAD if field in gaps))
    sys.stderr.write(
        "headroom: the launch does not say its load, so this answers whether the engine starts and "
        f"has room for one request; say {fields} for yours\n"
    )
    return tuple(field for field in gaps if field not in LOAD)


def _fill_gaps(answer: dict[str, Any], gaps: Sequence[str]) -> bool:
    """Set open fields to their lower bounds, where all have one."""
    # A server of an earlier release tells of none.
    bounds = {
        entry["field"]: value
        for entry in answer["questions"]
        if (value := entry.get("lower_bound")) is not None
    }
    if not bounds.keys() >= set(gaps):
        return False
    for field in gaps:
        place_field(answer["question"], field, bounds[field])
    return True


def _list_gaps(answer: dict[str, Any], searched: str) -> tuple[str, ...]:
    """Return what only flags can say.

    Which GPU it is a command asks for itself.
    """
    return tuple(
        field for field in answer["missing"] if field != "gpu" and not field.startswith(searched)
    )


def _refuse(answer: dict[str, Any], gaps: Sequence[str]) -> InvalidRequestError:
    reasons = {entry["field"]: entry["why"] for entry in answer["questions"]}
    texts = [f"{field} ({reasons[field]})" if field in reasons else field for field in gaps]
    fields = translate_to_flags("; ".join(texts))
    message = f"the launch does not say {fields}: say it by a flag"
    return InvalidRequestError(
        message, errors=[{"field": field, "message": reasons.get(field, "")} for field in gaps]
    )
