"""What no probe of this version can run, refused when it is asked for instead of after its turn in the queue."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.errors import InvalidRequestError
from service.estimator.architecture import Architecture
from service.estimator.dtypes import DType
from service.estimator.encoder_decoder import EncoderDecoder
from service.estimator.layout import Layout
from service.estimator.support.serving import check_serving
from service.estimator.support.training import check_training
from service.estimator.workload import (
    Checkpointing,
    Engine,
    Framework,
    Loss,
    Method,
    Offload,
    Quantization,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.jobs.contract import MeasureRequest
from service.jobs.ranks import rank_obstacles

PROBE_DTYPES = (DType.FP32, DType.BF16, DType.FP16)
PROBE_METHODS = (Method.FULL, Method.LORA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """The field that stands in the way, and what would be right."""

    field: str
    message: str


def check_measurable(request: MeasureRequest) -> None:
    """Refuse a request that every worker would refuse; what depends on a worker's host is left to its probe."""
    obstacles = list(_obstacles(request))
    if obstacles:
        errors = [{"field": obstacle.field, "message": obstacle.message} for obstacle in obstacles]
        raise InvalidRequestError(obstacles[0].message, errors=errors)


def check_plannable(architecture: Architecture, workload: Workload, layout: Layout) -> None:
    """Refuse what the estimator has no answer for, with which a probe plans its runs, and passes that no probe runs."""
    if isinstance(workload, ServeWorkload) and (isinstance(architecture, EncoderDecoder) or not architecture.shifts_labels):
        message = f"a probe serves models that write token by token, and {architecture.family} is none: ask to train it"
        raise InvalidRequestError(message, errors=[{"field": "model", "message": message}])
    if isinstance(workload, ServeWorkload) and workload.num_images:
        message = "a probe serves text alone: leave num_images out, or ask to train with images"
        raise InvalidRequestError(message, errors=[{"field": "workload.num_images", "message": message}])
    if isinstance(workload, TrainWorkload):
        check_training(architecture, workload, layout)
    else:
        check_serving(architecture, workload, layout)


def _obstacles(request: MeasureRequest) -> Iterator[Obstacle]:
    yield from _model_obstacles(request)
    workload = request.task.workload
    for field, message in rank_obstacles(request.layout, workload):
        yield Obstacle(field=field, message=message)
    if not 0 <= request.rank < request.layout.num_gpus:
        message = f"rank is {request.rank}, and the layout has ranks 0 to {request.layout.num_gpus - 1}"
        yield Obstacle(field="rank", message=message)
    yield from _training_obstacles(workload) if isinstance(workload, TrainWorkload) else _serving_obstacles(workload)


def _model_obstacles(request: MeasureRequest) -> Iterator[Obstacle]:
    config = request.model.hf_config
    if config is None:
        message = (
            'a probe builds a real model, so it needs the model\'s config.json: ask with {"hf_config": {...}} '
            "or with the name of a model that was stored from one"
        )
        yield Obstacle(field="model", message=message)
    elif "quantization_config" in config:
        message = "the config names quantised weights, and a probe runs 16 and 32 bit weights only: drop quantization_config"
        yield Obstacle(field="model" if request.model.name else "model.hf_config.quantization_config", message=message)


def _training_obstacles(workload: TrainWorkload) -> Iterator[Obstacle]:
    yield from _dtype_obstacles("workload.precision.param_dtype", workload.precision.param_dtype)
    yield from _dtype_obstacles("workload.precision.compute_dtype", workload.precision.compute_dtype)
    if workload.method not in PROBE_METHODS:
        runs = ", ".join(method.value for method in PROBE_METHODS)
        message = f"a probe trains with method {runs}, not {workload.method.value}"
        yield Obstacle(field="workload.method", message=message)
    for field, asked, fixed in _plain_words(workload):
        if asked != fixed:
            yield Obstacle(field=f"workload.{field}", message=f"a probe runs the plain training loop: {field} {fixed}")


def _plain_words(workload: TrainWorkload) -> Iterator[tuple[str, object, object]]:
    """Yield the words that a probe's own training loop fixes: their field, what is asked, and what it runs."""
    yield "framework", workload.framework.value, Framework.TRANSFORMERS.value
    yield "loss", workload.loss.value, Loss.FULL_LOGITS.value
    yield "offload", "none" if workload.offload == Offload() else "some", "none"
    yield "frozen", list(workload.frozen), []
    yield "optimizer_in_backward", workload.optimizer_in_backward, False
    if workload.activation_checkpointing is Checkpointing.SELECTIVE:
        yield "activation_checkpointing", Checkpointing.SELECTIVE.value, "none or full"


def _serving_obstacles(workload: ServeWorkload) -> Iterator[Obstacle]:
    if workload.engine is not Engine.TRANSFORMERS:
        message = f"a probe serves with engine {Engine.TRANSFORMERS.value}, not {workload.engine.value}"
        yield Obstacle(field="workload.engine", message=message)
    if workload.quantization is not Quantization.NONE:
        message = f"a probe runs unquantised weights, not {workload.quantization.value}"
        yield Obstacle(field="workload.quantization", message=message)
    if workload.num_beams > 1:
        yield Obstacle(field="workload.num_beams", message=f"a probe decodes one beam, not {workload.num_beams}")
    if workload.engine_version is not None:
        message = f"a probe runs the version that its worker has installed, not {workload.engine_version}: leave it out"
        yield Obstacle(field="workload.engine_version", message=message)
    if workload.speculative is not None:
        yield Obstacle(field="workload.speculative", message="a probe runs one model, without tokens guessed ahead")
    yield from _dtype_obstacles("workload.weight_dtype", workload.weight_dtype)
    weights, cache = workload.weight_dtype, workload.kv_cache_dtype
    if cache is not weights:
        message = f"a probe keeps its cache in the weights' dtype {weights.value}, not {cache.value}"
        yield Obstacle(field="workload.kv_cache_dtype", message=message)


def _dtype_obstacles(field: str, dtype: DType) -> Iterator[Obstacle]:
    if dtype not in PROBE_DTYPES:
        runs = ", ".join(one.value for one in PROBE_DTYPES)
        yield Obstacle(field=field, message=f"a probe has no {dtype.value}; it runs {runs}")
