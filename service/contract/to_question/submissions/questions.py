"""Submitted jobs as questions.

A job says its question itself, else what it launches does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import msgspec

from service.catalog.gpus import find_gpus
from service.contract.schemas.fit import FitRequest
from service.contract.schemas.imports.launches import LaunchFileRequest, LaunchImportRequest
from service.contract.schemas.layouts import LayoutRequest
from service.contract.to_question.launches import FindCheckpoint, read_launch_by
from service.contract.to_question.submissions.words import read_words
from service.contract.to_question.validation_errors import decode
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.workload import TrainWorkload, Workload
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.fields import place_field
from service.formats.launches.values.launch import STARTING_LOAD
from service.formats.submissions.submission import GpuRequest, Submission, find_note

_FIELDS = frozenset(field.name for field in msgspec.structs.fields(FitRequest))
_SAY = "say it in headroom.dev/question, #HEADROOM or HEADROOM_QUESTION"
_REPLICAS = frozenset({"data_parallel"})
_DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel")
_NOMINAL_BYTES = 0.9e9
"""Of a vendor's GB, of which a part is taken by ECC: a T4 of 16 GB has 15.6e9 bytes."""
MAX_GPUS = 64
"""Largest number of GPUs that is looked for where a job asks for too few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionQuestion:
    """The question of a job: a body of ``POST /v1/fit``, decoded.

    ``gpus`` are those that the job asks for, ``None`` where it does not say. ``is_stated``: the job
    says it itself; else it was read from what the job launches. ``open_fields`` are not said, and
    have the value here with which memory is least: the job may not fit where the question does.
    """

    request: FitRequest
    gpu: str
    gpus: GpuRequest | None
    is_stated: bool
    assumed: tuple[str, ...] = ()
    open_fields: tuple[str, ...] = ()


class OpenSubmissionError(InvalidInputError):
    """A job that does not say enough to be answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _LaunchedQuestion:
    document: dict[str, Any]
    missing: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    """Those that its constraint may mean."""
    lower_bound: Mapping[str, object] = field(default_factory=dict)
    """Values of missing fields with which memory is least."""


def read_submission(
    submission: Submission,
    find: FindCheckpoint,
    *,
    default_gpu: str | None = None,
    cluster: str | None = None,
) -> SubmissionQuestion:
    """Return the question of a job.

    Its cluster is ``cluster`` where it names none. Raises OpenSubmissionError where something is
    missing, InvalidInputError or InvalidRequestError for what is written wrongly.
    """
    note = submission.note or find_note(submission.environment, submission.script)
    if note is not None:
        launched = _LaunchedQuestion(document=_spread(_read_note(note), submission.gpus))
    else:
        try:
            launched = _read_launch(submission, find)
        except LaunchFormatError as error:
            message = f"its launch cannot be read: {error.message}"
            raise OpenSubmissionError(message, field="question") from error
    document = launched.document
    if "gpu" not in document or _is_placed(submission):
        document["gpu"] = _choose_gpu(submission.gpus, default_gpu, launched.gpus)
    if cluster is not None:
        document.setdefault("cluster", cluster)
    document["gpu"] = _name_slice(document["gpu"], submission.gpus)
    missing = tuple(name for name in launched.missing if name != "gpu")
    assumed: tuple[str, ...] = ()
    workload = _get_section(document, "workload")
    if workload.get("task") == "serve":
        open_fields = {name: value for name, value in STARTING_LOAD.items() if name not in workload}
        document["workload"] = {**workload, **open_fields}
        missing = tuple(name for name in missing if name.partition(".")[2] not in open_fields)
        assumed = ("for one request at a time",) if "num_sequences" in open_fields else ()
    if not launched.lower_bound.keys() >= set(missing):
        raise refuse_open(missing)
    for name in missing:
        place_field(document, name, launched.lower_bound[name])
    request = decode({**document, "remedies": False}, FitRequest)
    gpu = request.gpu if isinstance(request.gpu, str) else "GPU of that memory"
    return SubmissionQuestion(
        request=request,
        gpu=gpu,
        gpus=submission.gpus,
        is_stated=note is not None,
        assumed=assumed,
        open_fields=missing,
    )


def refuse_open(fields: tuple[str, ...]) -> OpenSubmissionError:
    """Return the error about a job that does not say fields."""
    message = f"the launch does not say {', '.join(fields)}; {_SAY}"
    return OpenSubmissionError(message, field="question")


def _is_placed(submission: Submission) -> bool:
    gpus = submission.gpus
    return submission.is_placed and gpus is not None and bool(gpus.names)


def drop_replicas(request: FitRequest, workload: Workload) -> dict[str, object]:
    """Return a body of ``POST /v1/how-many`` that leaves the replicas open.

    The batch of a step stays that of ``workload``, the request's: what is looked for are more GPUs.
    """
    document: dict[str, Any] = msgspec.to_builtins(request)
    layout = {
        name: value for name, value in document.get("layout", {}).items() if name not in _REPLICAS
    }
    names = ("model", "gpu", "workload", "cluster", "confidence")
    body = {name: document[name] for name in names if name in document}
    if isinstance(workload, TrainWorkload):
        body["workload"] = body["workload"] | {"micro_batch_size": workload.micro_batch_size}
    constraints = {"max_gpus": MAX_GPUS}
    return {**body, "layout": layout, "constraints": constraints}


def _read_note(note: str) -> dict[str, Any]:
    if not note.startswith("{"):
        return read_words(note)
    try:
        document = msgspec.json.decode(note)
    except msgspec.DecodeError as error:
        message = f"the question is no JSON: {error}"
        raise InvalidInputError(message, field="question") from None
    if not isinstance(document, dict):
        message = "the question is no JSON object"
        raise InvalidInputError(message, field="question")
    unknown = sorted(set(document) - _FIELDS)
    if unknown:
        message = f"the question has no field {unknown[0]!r}; it is a body of POST /v1/fit"
        raise InvalidInputError(message, field="question")
    return document


def _spread(document: dict[str, Any], gpus: GpuRequest | None) -> dict[str, Any]:
    """Return a question of all the GPUs of a job.

    Those that it leaves open are replicas.
    """
    replicas = _count_replicas(document, gpus)
    if replicas in {None, 1}:
        return document
    layout = {**_get_section(document, "layout"), "data_parallel": replicas}
    return {**document, "layout": layout}


def _get_section(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a part of a question, empty where it is none.

    What is wrong with it is said when the question is decoded.
    """
    section = document.get(name)
    return section if isinstance(section, dict) else {}


def _read_launch(submission: Submission, find: FindCheckpoint) -> _LaunchedQuestion:
    """Return a launch's question, and what it leaves open."""
    files = [LaunchFileRequest(name=file.name, content=file.content) for file in submission.files]
    if submission.script is not None:
        files.append(LaunchFileRequest(name="job.sh", content=submission.script))
    sources: dict[str, Any] = {"command": list(submission.command)} if submission.command else {}
    if files:
        sources["files"] = files
    if not sources:
        message = f"nothing of the job says what it runs; {_SAY}"
        raise OpenSubmissionError(message, field="question")
    request = LaunchImportRequest(**sources)
    question = read_launch_by(request, find)
    replicas = _count_replicas(question.document, submission.gpus)
    is_open = "layout.data_parallel" in question.missing
    if replicas and (replicas > 1 or is_open):
        spread = msgspec.structs.replace(request, layout=LayoutRequest(data_parallel=replicas))
        question = read_launch_by(spread, find)
    asked_gpus = [entry for entry in question.questions if entry.field == "gpu"]
    choices = tuple(str(choice) for entry in asked_gpus for choice in entry.choices)
    return _LaunchedQuestion(
        document=msgspec.to_builtins(question.document),
        missing=question.missing,
        gpus=choices,
        lower_bound={
            entry.field: entry.lower_bound
            for entry in question.questions
            if entry.lower_bound is not None
        },
    )


def _count_replicas(document: Mapping[str, Any], gpus: GpuRequest | None) -> int | None:
    """Return the replicas of a training on all its GPUs.

    None where the launch says them itself, and for servers, which use what they name alone.
    """
    layout = _get_section(document, "layout")
    trains = _get_section(document, "workload").get("task") == "train"
    if gpus is None or not trains or not _REPLICAS.isdisjoint(layout):
        return None
    degrees = [layout.get(name, 1) for name in _DEGREES]
    if not all(isinstance(degree, int) and degree > 0 for degree in degrees):
        return None
    degree = prod(degrees)
    return gpus.total // degree if gpus.total % degree == 0 else None


def _name_slice(gpu: object, gpus: GpuRequest | None) -> object:
    """Return the MIG slice that a job asks for, else its GPU.

    Memory that a question states by itself is what the slice has.
    """
    if gpus is None or gpus.slice_profile is None or not isinstance(gpu, str):
        return gpu
    name, has_profile, profile = gpu.partition("/")
    if has_profile and profile.casefold() != gpus.slice_profile:
        message = f"the job asks for slices {gpus.slice_profile}, and its question is of {profile}"
        raise OpenSubmissionError(message, field="gpu")
    return f"{name}/{gpus.slice_profile}"


def _choose_gpu(gpus: GpuRequest | None, default_gpu: str | None, choices: tuple[str, ...]) -> str:
    """Return the SKU of a job's GPUs.

    Of several it is the smallest, which the job may get. ``choices`` are what its constraint means.
    """
    names = choices or (() if gpus is None else gpus.names)
    least_bytes = 0.0 if gpus is None else (gpus.memory_gb or 0.0) * _NOMINAL_BYTES
    entries = [
        entry
        for name in names
        for entry in find_gpus(name)
        if entry.to_device().capacity_bytes >= least_bytes
    ]
    if entries:
        return min(entries, key=lambda entry: entry.to_device().capacity_bytes).name
    if default_gpu is not None:
        return default_gpu
    if names:
        message = f"the GPU {names[0]!r} is none that is known; {_SAY}, with --gpu"
    else:
        message = f"the job does not say which GPU it runs on; {_SAY}, or HEADROOM_HOOK_GPU"
    raise OpenSubmissionError(message, field="gpu")
