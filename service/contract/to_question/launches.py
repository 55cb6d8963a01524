"""Launches of requests as questions, with what the request says itself."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from service.base.errors import InvalidRequestError, ServiceError
from service.catalog.site_words import find_site_gpus
from service.contract.schemas.fields import get_or_none
from service.contract.schemas.fit import FitRequest, GpuReference, ModelReference
from service.contract.schemas.imports.launches import LaunchImportRequest
from service.contract.to_question.drafts import find_hub_draft
from service.contract.to_question.fits import read_workload_piece
from service.contract.to_question.layouts import read_layout
from service.contract.to_question.models import ResolvedModel
from service.contract.to_question.searches import is_same_gpu, show_gpu
from service.contract.to_question.validation_errors import decode
from service.estimator.values.errors import EstimatorError
from service.formats.launches.read_launch import read_launch
from service.formats.launches.shell.inner_shells import find_shell, open_entrypoint
from service.formats.launches.sources.command_lines import join_lines, needs_shell, split_command
from service.formats.launches.sources.handed_in import find_typed_script, is_shell
from service.formats.launches.values.launch import (
    Checkpoint,
    ImportedLaunch,
    Launch,
    LaunchFile,
    OpenQuestion,
)

ResolveModel = Callable[[ModelReference], ResolvedModel]
FindCheckpoint = Callable[[ModelReference], Checkpoint]
"""Raises ServiceError or EstimatorError for a model that is not known."""
_Find = Callable[[str], Checkpoint | None]
_PASTED = ("command.sh", "pasted-command.sh")
"""Name of a pasted script: where a file has the first, it is the second."""
_GIVEN = "given"
"""Name by which a launch's model is known where the request brings one along."""
_WHOLE = ("workload.sequence_lengths", "workload.speculative.draft")
_REQUIRED = {
    "train": ("workload.sequence_length",),
    "serve": ("workload.num_sequences", "workload.prompt_tokens"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchQuestion:
    """The question that a launch asks.

    ``document`` is a body of ``POST /v1/fit``, without the ``missing`` fields; ``refusal`` is what
    that says to it, None where it is answered or something is missing.
    """

    imported: ImportedLaunch
    document: Mapping[str, object]
    questions: tuple[OpenQuestion, ...]
    missing: tuple[str, ...]
    refusal: str | None


def read_launch_request(request: LaunchImportRequest, resolve: ResolveModel) -> LaunchQuestion:
    """Return the question of a launch, whose models are resolved.

    Raises what ``read_launch_by`` raises.
    """
    return read_launch_by(request, find_by(resolve))


def find_by(resolve: ResolveModel) -> FindCheckpoint:
    """Return what tells of a model by resolving it."""
    return lambda reference: _describe_checkpoint(resolve(reference))


def read_launch_by(request: LaunchImportRequest, find: FindCheckpoint) -> LaunchQuestion:
    """Return the question of a launch.

    Raises InvalidInputError for a launch that cannot be read, InvalidRequestError for a request
    that says otherwise than the launch.
    """
    model = get_or_none(request.model)
    imported = read_launch(_read_sources(request, find))
    document = _copy(imported.question)
    questions = imported.questions
    if model is not None:
        document["model"] = msgspec.to_builtins(model)
        questions = tuple(question for question in questions if question.field != "model")
    else:
        questions += _ask_model(document, find)
    if not isinstance(request.gpu, UnsetType):
        imported = _warn_of_gpu(imported, request.gpu)
        questions = tuple(question for question in questions if question.field != "gpu")
        document["gpu"] = msgspec.to_builtins(request.gpu)
    overrides = _list_overrides(request)
    for field, value in overrides.items():
        _put(document, field, value, imported)
    questions = tuple(question for question in questions if question.field not in overrides)
    missing = _list_missing(document, questions)
    if "gpu" in missing and not any(question.field == "gpu" for question in questions):
        questions += (OpenQuestion(field="gpu", why="no launch says which GPU it runs on"),)
    return LaunchQuestion(
        imported=imported,
        document=document,
        questions=questions,
        missing=missing,
        refusal=None if missing else _find_refusal(document),
    )


def _read_sources(request: LaunchImportRequest, find: FindCheckpoint) -> Launch:
    command = get_or_none(request.command)
    files = [
        LaunchFile(name=file.name, content=file.content)
        for file in get_or_none(request.files) or []
    ]
    tokens = split_command(command) if isinstance(command, str) else tuple(command or ())
    script = _find_script(command, tokens)
    if script is not None and not _names_any(tokens, files):
        files = [file for file in files if _is_meant(file, script)]
        file_names = {file.name for file in files}
        name = next(name for name in _PASTED if name not in file_names)
        files.append(LaunchFile(name=name, content=script))
        tokens = ()
    return Launch(
        launcher=get_or_none(request.launcher),
        files=tuple(files),
        command=tokens,
        arguments=get_or_none(request.arguments) or {},
        model=None if isinstance(request.model, UnsetType) else _GIVEN,
        layout=_list_degrees(request),
        find_checkpoint=_make_finder(request.model, find),
        find_skus=find_site_gpus,
    )


def _is_meant(file: LaunchFile, script: str) -> bool:
    """Return whether a file counts beside a pasted script."""
    return not is_shell(file.name, file.content) or PurePath(file.name).name in script


def _warn_of_gpu(imported: ImportedLaunch, gpu: GpuReference) -> ImportedLaunch:
    """Return a launch, with a warning of another GPU than its job's."""
    stated = imported.question.get("gpu")
    if not isinstance(stated, str) or is_same_gpu(gpu, stated):
        return imported
    text = f"the launch's job asks for {stated}, and the answer is for {show_gpu(gpu)}"
    return replace(imported, warnings=(*imported.warnings, text))


def _find_script(command: str | Sequence[str] | None, tokens: Sequence[str]) -> str | None:
    """Return the script that a shell would read, None without.

    The words of a list are cut already: one of them may be a shell's text (``bash -c``).
    """
    if isinstance(command, str):
        return join_lines(command) if needs_shell(command) else None
    return shlex.join(tokens) if find_shell(open_entrypoint(tokens)) is not None else None


def _names_any(tokens: Sequence[str], files: Sequence[LaunchFile]) -> bool:
    """Return whether a command runs a script that was handed in."""
    return find_typed_script(tokens, {file.name: file.content for file in files}) is not None


def _list_degrees(request: LaunchImportRequest) -> dict[str, int]:
    """Return the degrees that the request says beside the launch."""
    layout = get_or_none(request.layout)
    degrees: dict[str, Any] = {} if layout is None else msgspec.to_builtins(layout)
    return {name: value for name, value in degrees.items() if name.endswith("_parallel")}


def _make_finder(model: ModelReference | UnsetType, find: FindCheckpoint) -> _Find:
    """Return what tells of a model by a launch's name for it.

    The model that the request gives is every name's.
    """
    if not isinstance(model, UnsetType):
        checkpoint = find(model)
        return lambda _name: checkpoint

    def find_named(name: str) -> Checkpoint | None:
        try:
            return find(name)
        except (ServiceError, EstimatorError):
            return None

    return find_named


def _describe_checkpoint(model: ResolvedModel) -> Checkpoint:
    config = model.hf_config or {}
    text = config.get("text_config")
    inner = text if isinstance(text, Mapping) else {}
    dtype = next(
        (
            value
            for source in (config, inner)
            for key in ("dtype", "torch_dtype")
            if isinstance(value := source.get(key), str)
        ),
        None,
    )
    spec = model.architecture.spec
    return Checkpoint(
        model_type=model.architecture.family,
        dtype=dtype,
        max_length=getattr(spec, "max_position_embeddings", None) or None,
        vocab_size=getattr(spec, "vocab_size", None),
        num_experts=getattr(spec, "num_experts", 0),
    )


def _ask_model(document: Mapping[str, object], find: FindCheckpoint) -> tuple[OpenQuestion, ...]:
    """Return the question for a model that nobody here knows."""
    name = document.get("model")
    if not isinstance(name, str):
        return ()
    try:
        find(name)
    except (ServiceError, EstimatorError) as error:
        why = error.detail if isinstance(error, ServiceError) else error.message
        return (OpenQuestion(field="model", why=why, is_assumed=True),)
    return ()


def _list_overrides(request: LaunchImportRequest) -> dict[str, object]:
    """Return the request's own fields, by their dotted paths."""
    overrides: dict[str, object] = {}
    if request.layout is not UNSET:
        layout: dict[str, Any] = msgspec.to_builtins(request.layout)
        overrides |= {f"layout.{name}": value for name, value in layout.items()}
    pending: list[tuple[str, object]] = [("workload", get_or_none(request.workload) or {})]
    while pending:
        path, value = pending.pop()
        if isinstance(value, Mapping) and path not in _WHOLE:
            pending += [(f"{path}.{name}", inner) for name, inner in value.items()]
        else:
            overrides[path] = value
    return overrides


def _put(document: dict[str, Any], field: str, value: object, imported: ImportedLaunch) -> None:
    """Set a field, unless the launch says otherwise of it."""
    *path, name = field.split(".")
    for part in path:
        inner = document.setdefault(part, {})
        document = inner if isinstance(inner, dict) else {}
    if name in document and document[name] != value and field not in imported.open_fields:
        source = next(
            (
                f" by {read.key} ({read.where})"
                for read in imported.read
                if read.meaning.startswith(f"{field} = ")
            ),
            "",
        )
        message = (
            f"{field} is {document[name]}{source} in the launch and {value} in the request; leave "
            "it out, or change the launch"
        )
        raise InvalidRequestError(message, errors=[{"field": field, "message": message}])
    document[name] = value


def _copy(question: Mapping[str, object]) -> dict[str, Any]:
    copied: dict[str, Any] = msgspec.to_builtins(question)
    return copied


def _list_missing(
    document: Mapping[str, Any], questions: Sequence[OpenQuestion]
) -> tuple[str, ...]:
    """Return fields without which a question is not answered.

    Those that are asked are, unless a value is assumed: what decides memory is no default here
    that the launcher does not have.
    """
    workload = document.get("workload", {})
    required = _REQUIRED.get(str(workload.get("task")), ("workload.task",))
    missing = [name for name in ("model", "gpu") if name not in document]
    missing += [field for field in required if field.split(".")[1] not in workload]
    missing += [question.field for question in questions if not question.is_assumed]
    return tuple(dict.fromkeys(missing))


def _find_refusal(document: Mapping[str, object]) -> str | None:
    """Return why ``POST /v1/fit`` cannot read a question, None where it can."""
    try:
        request = decode(document, FitRequest)
        if find_hub_draft(request.workload) is not None:
            return None
        workload = read_workload_piece(request.workload)
        read_layout(request.layout, serves=workload.serves)
    except (ServiceError, EstimatorError) as error:
        return error.detail if isinstance(error, ServiceError) else error.message
    return None
