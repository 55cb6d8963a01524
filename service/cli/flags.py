"""Flags for every field of the HTTP contract.

Made from the contract's own schema: what HTTP takes, the command line takes. ``--micro-batch-size
4`` becomes ``workload.micro_batch_size``, ``--zero-stage 3`` ``layout.zero_stage``, ``--lora-rank
16`` ``workload.lora.rank``, ``--frozen vision,projector`` the list ``workload.frozen``. Values are
checked by the schema, so both refuse the same things in the same words.
"""

import argparse
import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from service.base.errors import InvalidRequestError
from service.cli.input_flags import add_input_flags
from service.cli.model_files import spelling
from service.cli.model_files.tasks import TASKS, infer_task
from service.cli.schema_flags import Flag, iter_flags
from service.contract.schemas.fields import MAX_LAYERS
from service.contract.schemas.layouts import LayoutRequest
from service.contract.schemas.serving import ServeRequest
from service.contract.schemas.workload import TrainRequest
from service.estimator.values.heads import Head
from service.terminal.arguments import Switch, format_choices, make_choice_reader, parse_positive
from service.terminal.foreign_flags import OTHER_TASKS, explain_foreign_flags

_INTEGER = re.compile(r"-?[0-9]+")
_SELECTIVE = re.compile(r"selective:([0-9]+)")
_GROUPS: tuple[tuple[str, tuple[str, ...], type[Struct]], ...] = (
    ("training", ("workload",), TrainRequest),
    ("serving", ("workload",), ServeRequest),
    ("layout", ("layout",), LayoutRequest),
)


def add_question(
    parser: argparse.ArgumentParser, *, usage: str = "%(prog)s MODEL --task train|serve [WORD …]"
) -> None:
    """Add the model, task, workload and layout flags."""
    parser.usage = usage
    parser.add_argument("model", nargs="?", help=spelling.MODEL_HELP)
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="a Hugging Face config.json in place of a name"
    )
    parser.add_argument(
        "--recording",
        type=Path,
        metavar="FILE",
        help="what `headroom models record` wrote of a config whose type has no module, in place "
        "of a name",
    )
    add_head(parser)
    parser.add_argument(
        "--task",
        type=make_choice_reader(tuple(TASKS), OTHER_TASKS),
        metavar=format_choices(tuple(TASKS)),
        help="train or serve; default the one that the other words belong to",
    )
    add_fields(parser)
    explain_foreign_flags(parser)


def add_head(parser: argparse._ActionsContainer) -> None:
    """Add the model's head and its labels."""
    heads = tuple(head.value for head in Head)
    parser.add_argument(
        "--head",
        type=make_choice_reader(heads),
        metavar=format_choices(heads),
        help="the model's head, in place of the one that its config's architectures name",
    )
    parser.add_argument(
        "--num-labels", type=int, metavar="N", help="labels of a head that classifies"
    )


def add_gpu(parser: argparse.ArgumentParser) -> None:
    """Add a GPU by name or by memory."""
    parser.add_argument(
        "--gpu",
        help="name or alias of a GPU, such as A100-SXM4-80GB, or of a MIG slice, such as "
        "A100-SXM4-80GB/1g.10gb",
    )
    add_gpu_memory(parser)


def add_gpu_memory(parser: argparse.ArgumentParser) -> None:
    """Add a GPU that is known by its memory alone."""
    parser.add_argument(
        "--gpu-memory",
        metavar="BYTES",
        help="any GPU on which a process can allocate this much, such as 80Gi",
    )


def list_choices() -> dict[str, tuple[str, ...]]:
    """Return the words that flags take, by their names in argparse."""
    return {
        flag.dest: flag.choices
        for _, prefix, schema in _GROUPS
        for flag in iter_flags(schema, prefix)
        if flag.choices
    }


def add_fields(parser: argparse.ArgumentParser) -> None:
    """Add a flag for every scalar of the schemas.

    A field that training and serving share is one flag.
    """
    seen: set[str] = set()
    for title, prefix, schema in _GROUPS:
        group = parser.add_argument_group(title)
        for flag in iter_flags(schema, prefix):
            if flag.dest not in seen:
                seen.add(flag.dest)
                _add_flag(group, flag)
    add_input_flags(parser)


def add_schema(parser: argparse.ArgumentParser, title: str, schema: type[Struct]) -> None:
    """Add a flag for every scalar of a workload of another kind."""
    group = parser.add_argument_group(title)
    for flag in iter_flags(schema, ("workload",)):
        _add_flag(group, flag)


def get_gpu(options: argparse.Namespace) -> object:
    """Return the request's ``gpu``."""
    memory = getattr(options, "gpu_memory", None)
    if (options.gpu is None) == (memory is None):
        message = "which GPU? give either --gpu NAME, such as A100-SXM4-80GB, or --gpu-memory 80Gi"
        raise InvalidRequestError(message)
    return options.gpu if options.gpu is not None else read_gpu_memory(options)[0]


def read_gpu_memory(options: argparse.Namespace) -> list[dict[str, int | str]]:
    """Return the GPU that only its memory describes, if any."""
    text = options.gpu_memory
    return [] if text is None else [{"memory_bytes": _parse_number_or_text(text)}]


def build_workload(options: argparse.Namespace) -> dict[str, Any]:
    """Return the request's ``workload`` and ``layout``.

    They hold the flags that were set, and nothing else, or what a launch says.
    """
    if (question := getattr(options, "launch_question", None)) is not None:
        return dict(question)
    if options.task is None:
        options.task = infer_task(options)
    return collect_fields(options, {"workload": {"task": options.task}})


def collect_fields(options: argparse.Namespace, document: dict[str, Any]) -> dict[str, Any]:
    """Add the set flags of workload and layout to a document."""
    for dest, value in vars(options).items():
        if "." in dest and value is not None:
            path = dest.split(".")
            if options.task is not None:
                _check_task(options.task, path)
            _set_value(document, path, spelling.read_draft(value) if path[-1] == "draft" else value)
    return document


def _check_task(task: str, path: list[str]) -> None:
    section, name, *_ = path
    if section == "workload" and name not in TASKS[task].__struct_encode_fields__:
        other = next(word for word in TASKS if word != task)
        message = (
            f"--{'-'.join(path[1:]).replace('_', '-')} is a word of --task {other}, and this is "
            f"--task {task}"
        )
        raise InvalidRequestError(message)


def _set_value(document: dict[str, Any], path: list[str], value: object) -> None:
    for name in path[:-1]:
        document = document.setdefault(name, {})
    document[path[-1]] = value


def _add_flag(group: argparse._ArgumentGroup, flag: Flag) -> None:
    text = flag.help.rstrip(".").replace("`", "").replace("%", "%%")
    if flag.kinds == {bool}:
        group.add_argument(flag.option, dest=flag.dest, action=Switch, default=None, help=text)
        return
    choices = (
        [*flag.choices, "selective:N"]
        if flag.path[-1] == "activation_checkpointing"
        else flag.choices
    )
    help_text = f"{text}: {', '.join(choices)}" if choices else text
    group.add_argument(
        flag.option,
        dest=flag.dest,
        type=_make_reader(flag),
        metavar=_get_metavar(flag.kinds),
        help=help_text,
    )


def _make_reader(flag: Flag) -> Any:  # noqa: ANN401 - argparse takes any callable of one text
    if flag.path[-1] == "sequence_lengths":
        return _parse_lengths
    if flag.path[-1] in {"pipeline_layers", "tensor_split"}:
        return _parse_numbers
    if list in flag.kinds:
        return partial(_parse_list, words=flag.choices)
    if flag.path[-1] == "activation_checkpointing":
        return _parse_checkpointing
    if {int, str} <= flag.kinds:
        return _parse_number_or_text
    return _parse_word if str in flag.kinds else parse_number


def _get_metavar(kinds: frozenset[type]) -> str:
    if list in kinds:
        return "WORD,…"
    if {int, str} <= kinds:
        return "BYTES"
    return "WORD" if str in kinds else "N"


def _parse_word(text: str) -> object:
    """Parse a word, or a JSON object in its place."""
    if not text.startswith("{"):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        message = f"{text!r} is not a JSON object: {error}"
        raise argparse.ArgumentTypeError(message) from None


def _parse_checkpointing(text: str) -> object:
    """Parse a checkpointing flag.

    ``selective:2`` is the contract's object for every second layer.
    """
    match = _SELECTIVE.fullmatch(text)
    return {"selective": int(match[1])} if match is not None else _parse_word(text)


def _parse_lengths(text: str) -> object:
    """Parse lengths of sequences, or their numbers by length.

    ``512:10,2048:3`` is the contract's object of ten sequences and three longer ones.
    """
    if ":" not in text:
        return [parse_number(part.strip()) for part in text.split(",")]
    pairs = (part.partition(":") for part in text.split(","))
    return {length.strip(): parse_number(count.strip()) for length, _, count in pairs}


def _parse_numbers(text: str) -> object:
    """Parse numbers with commas between them; ``4*15`` is fifteen times 4."""
    parts = (part.strip().partition("*") for part in text.split(","))
    numbers: list[object] = []
    for number, star, times in parts:
        count = min(parse_positive(times), MAX_LAYERS) if star else 1
        numbers += [parse_number(number)] * count
    return numbers


def _parse_list(text: str, *, words: Sequence[str]) -> object:
    """Parse names with commas between them.

    One of ``words`` stands for a list by itself.
    """
    return text if text in words else [name.strip() for name in text.split(",")]


def parse_number(text: str) -> int | float:
    """Parse a number as JSON would; the schema checks its bounds."""
    try:
        return int(text) if _INTEGER.fullmatch(text) else float(text)
    except ValueError:
        message = f"{text!r} is not a number"
        raise argparse.ArgumentTypeError(message) from None


def _parse_number_or_text(text: str) -> int | str:
    return int(text) if _INTEGER.fullmatch(text) else text
