"""What a file says of its own run: taken over where the question leaves it open, and held against it where it does not."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from service.catalog.models import find_model, load_architecture
from service.estimator.model.architecture import Architecture
from service.estimator.values.engine_versions import parse_version
from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, Workload
from service.formats.measured.reading import Format, Parsed, Reading

ENGINES: Mapping[Format, str] = {Format.VLLM: "vllm", Format.SGLANG: "sglang"}
_OPEN = ("max_model_len", "max_num_batched_tokens", "max_num_sequences", "gpu_memory_fraction")
_OF_LAYOUT = ("tensor_parallel", "pipeline_parallel")


def settle(parsed: Parsed, workload: Workload) -> tuple[Workload, list[str]]:
    """Return the workload with what it leaves open as the file has it, and a line for each such word."""
    if parsed.format not in ENGINES or not isinstance(workload, ServeWorkload):
        return workload, []
    taken: dict[str, str | int | float | bool] = {
        name: parsed.said[name] for name in _OPEN if name in parsed.said and getattr(workload, name) is None
    }
    version = parsed.environment.get(ENGINES[parsed.format])
    if version is not None and workload.engine_version is None and _is_version(version):
        taken["engine_version"] = version
    return replace(workload, **taken), [f"{name} = {value}, as the log says" for name, value in taken.items()]  # type: ignore[arg-type]  # words of the workload, by name


def miscounted(readings: Iterable[Reading], layout: Layout) -> Iterator[str]:
    """Yield each step of a job that had more or fewer GPUs than the layout has."""
    for reading in readings:
        if reading.job_gpus is not None and reading.job_gpus != layout.num_gpus:
            yield (
                f"the file says that {reading.place.label()} had {reading.job_gpus} GPUs, and the layout of the question has "
                f"{layout.num_gpus}: say the layout that ran, or match the step of this one"
            )


def contradictions(parsed: Parsed, architecture: Architecture, workload: Workload, layout: Layout) -> list[str]:
    """Return every word in which the file and the question differ."""
    engine = ENGINES.get(parsed.format)
    if engine is None:
        return []
    if not isinstance(workload, ServeWorkload) or workload.engine.value != engine:
        asked = workload.engine.value if isinstance(workload, ServeWorkload) else "training"
        return [f"the file is a log of {engine}, and the workload is {asked}: ask with task serve and engine {engine}"]
    return [*_other_model(parsed, architecture), *_differences(parsed, workload, layout)]


def _other_model(parsed: Parsed, architecture: Architecture) -> Iterator[str]:
    """Yield that a log names a model of the catalogue that has other parameters; what it calls by a path is not known."""
    named = parsed.environment.get("model", "")
    entry = find_model(named)
    if entry is None:
        return
    try:
        said = load_architecture(entry).parameter_counts().total
    except EstimatorError:
        return
    asked = architecture.parameter_counts().total
    if said != asked:
        yield f"the log is of {named}, which has {said:,} parameters, and the question's model has {asked:,}"


def _differences(parsed: Parsed, workload: ServeWorkload, layout: Layout) -> Iterator[str]:
    for name, said in parsed.said.items():
        asked = getattr(layout if name in _OF_LAYOUT else workload, name)
        asked = getattr(asked, "value", asked)
        if asked is not None and asked != said:
            yield f"the log says {name} {said}, and the question {asked}"


def _is_version(text: str) -> bool:
    try:
        parse_version(text)
    except InvalidInputError:
        return False
    return True
