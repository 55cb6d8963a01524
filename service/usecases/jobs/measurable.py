"""Requests that no probe can run, refused on submission.

Otherwise they would be refused after their turn in the queue.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.base.errors import InvalidRequestError
from service.estimator.model.architecture import Architecture
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.rules.obstacles import (
    find_model_obstacles,
    find_rank_obstacles,
    find_workload_obstacles,
)
from service.estimator.rules.transformers import check_in_transformers
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import TrainWorkload, Workload
from service.jobs.artifacts import NO_SNAPSHOT, ArtifactName
from service.jobs.contract import MeasureRequest, ProbeDevice


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A field that no probe can run, and what would be right."""

    field: str
    message: str


def check_measurable(request: MeasureRequest) -> None:
    """Refuse a request that every worker would refuse.

    What depends on a worker's host is left to its probe.
    """
    obstacles = list(_find_obstacles(request))
    if obstacles:
        errors = [{"field": obstacle.field, "message": obstacle.message} for obstacle in obstacles]
        raise InvalidRequestError(obstacles[0].message, errors=errors)


def check_plannable(architecture: Architecture, workload: Workload, layout: Layout) -> None:
    """Refuse a workload that a probe cannot plan or run.

    A probe plans its runs with the estimator, which must have an answer.
    """
    _check_recording(architecture, workload, layout)
    for field, message in find_model_obstacles(architecture, workload, layout):
        raise InvalidRequestError(message, errors=[{"field": field, "message": message}])
    check_in_transformers(architecture, workload, layout)


def _check_recording(architecture: Architecture, workload: Workload, layout: Layout) -> None:
    """Refuse what no probe runs of a recorded model.

    Runs of a causal language model's step alone are held to recordings.
    """
    if not is_recorded(architecture):
        return
    if (
        isinstance(workload, TrainWorkload)
        and layout.num_gpus == 1
        and architecture.recorded.has_plain_loss
        and architecture.recorded.reads is None
    ):
        return
    modelled = [
        "a training step of a causal language model on one GPU",
        "families with a module of their own (headroom families)",
    ]
    what = f"this measurement of a recording of {architecture.family}"
    raise NotModelledError(what, field="model", modelled=modelled)


def refuse_recording(architecture: Architecture) -> None:
    """Refuse a measurement elsewhere of a model whose passes were recorded."""
    if is_recorded(architecture):
        modelled = ["families with a module of their own (headroom families)"]
        what = f"imported measurements of a recording of {architecture.family}"
        raise NotModelledError(what, field="model", modelled=modelled)


def _find_obstacles(request: MeasureRequest) -> Iterator[Obstacle]:
    yield from _find_model_obstacles(request)
    workload = request.task.workload
    if workload.inputs is not None:
        message = (
            "a probe makes images by their number and tokens: say num_images and image_tokens, "
            "as the answer to a fit counts them, and leave inputs out"
        )
        yield Obstacle(field="workload.inputs", message=message)
    if request.device is ProbeDevice.TRACE and workload.num_images:
        message = (
            "where images go is decided by tokens' values, and fake tensors have none: leave "
            "num_images out, or device cpu"
        )
        yield Obstacle(field="workload.num_images", message=message)
    for field, message in find_rank_obstacles(request.layout, workload):
        yield Obstacle(field=field, message=message)
    if not 0 <= request.rank < request.layout.num_gpus:
        message = (
            f"rank is {request.rank}, and the layout has ranks 0 to {request.layout.num_gpus - 1}"
        )
        yield Obstacle(field="rank", message=message)
    for field, message in find_workload_obstacles(workload, request.layout):
        yield Obstacle(field=field, message=message)
    if len(set(request.artifacts)) < len(request.artifacts):
        yield Obstacle(
            field="artifacts",
            message=f"artifacts are {', '.join(request.artifacts)}: name each once",
        )
    if request.device is ProbeDevice.CPU and ArtifactName.MEMORY_SNAPSHOT in request.artifacts:
        yield Obstacle(field="artifacts", message=NO_SNAPSHOT)


def _find_model_obstacles(request: MeasureRequest) -> Iterator[Obstacle]:
    config = request.model.hf_config
    if config is None:
        message = (
            "a probe builds a real model, so it needs the model's config.json: ask with "
            '{"hf_config": {...}} '
            "or with the name of a model that was stored from one"
        )
        yield Obstacle(field="model", message=message)
    elif "quantization_config" in config:
        message = (
            "the config names quantised weights, and a probe runs 16 and 32 bit weights only: drop "
            "quantization_config, or name a model in 16 bits, such as gpt-oss-20b-bf16"
        )
        yield Obstacle(
            field="model" if request.model.name else "model.hf_config.quantization_config",
            message=message,
        )
