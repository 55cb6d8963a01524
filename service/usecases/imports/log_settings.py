"""Run settings from a measured file's log.

They fill what the question leaves open, and are compared with it where it does not.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from service.catalog.models import find_model, load_architecture
from service.estimator.model.architecture import Architecture
from service.estimator.values.engine_versions import parse_version
from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, Workload
from service.formats.measured.reading import Format, Parsed, Reading

ENGINES: Mapping[Format, str] = {Format.VLLM: "vllm", Format.SGLANG: "sglang"}
_FILLABLE = ("max_model_len", "max_num_batched_tokens", "max_num_sequences", "gpu_memory_fraction")
_LAYOUT_FIELDS = ("tensor_parallel", "pipeline_parallel")


def fill_from_log(parsed: Parsed, workload: Workload) -> tuple[Workload, list[str]]:
    """Fill open settings of a workload from the log.

    Return the workload, and a note for each setting that was filled.
    """
    if parsed.format not in ENGINES or not isinstance(workload, ServeWorkload):
        return workload, []
    settings: dict[str, str | int | float | bool] = {
        name: parsed.settings[name]
        for name in _FILLABLE
        if name in parsed.settings and getattr(workload, name) is None
    }
    version = parsed.environment.get(ENGINES[parsed.format])
    if version is not None and workload.engine_version is None and _is_version(version):
        settings["engine_version"] = version
    return replace(workload, **settings), [  # type: ignore[arg-type]  # words of the workload, by name
        f"{name} = {value}, as the log says" for name, value in settings.items()
    ]


def find_gpu_count_mismatches(readings: Sequence[Reading], layout: Layout) -> Iterator[str]:
    """Yield each step whose GPU count differs from the layout's."""
    for reading in readings:
        if reading.job_gpus is not None and reading.job_gpus != layout.num_gpus:
            yield (
                f"the file says that {reading.place.label()} had {reading.job_gpus} GPUs, and the "
                f"layout of the question has {layout.num_gpus}: say the layout that ran, or match "
                "the step of this one"
            )
    by_job: dict[str, set[tuple[str | None, str]]] = {}
    for reading in readings:
        place = reading.place
        if place.job is not None and place.gpu_uuid is not None:
            by_job.setdefault(place.job, set()).add((place.host, place.gpu_uuid))
    for job, gpus in by_job.items():
        # Fewer are those of one node of several.
        if len(gpus) > layout.num_gpus:
            yield (
                f"the file has {len(gpus)} GPUs of job {job}, and the layout of the question has "
                f"{layout.num_gpus}: say the layout that ran"
            )


def find_contradictions(
    parsed: Parsed, architecture: Architecture, workload: Workload, layout: Layout
) -> list[str]:
    """Return every setting in which file and question differ."""
    engine = ENGINES.get(parsed.format)
    if engine is None:
        return []
    if not isinstance(workload, ServeWorkload) or workload.engine.value != engine:
        requested = workload.engine.value if isinstance(workload, ServeWorkload) else "training"
        return [
            (
                f"the file is a log of {engine}, and the workload is {requested}: ask with task "
                f"serve and engine {engine}"
            )
        ]
    return [
        *_find_model_mismatch(parsed, architecture),
        *_find_differences(parsed, workload, layout),
    ]


def _find_model_mismatch(parsed: Parsed, architecture: Architecture) -> Iterator[str]:
    """Yield a catalogue model of the log with other parameters.

    A model that the log names by a path is not known.
    """
    named = parsed.environment.get("model", "")
    entry = find_model(named)
    if entry is None:
        return
    try:
        log_parameters = load_architecture(entry).parameter_counts().total
    except EstimatorError:
        return
    question_parameters = architecture.parameter_counts().total
    if log_parameters != question_parameters:
        yield (
            f"the log is of {named}, which has {log_parameters:,} parameters, and the question's "
            f"model has {question_parameters:,}"
        )


def _find_differences(parsed: Parsed, workload: ServeWorkload, layout: Layout) -> Iterator[str]:
    for name, logged in parsed.settings.items():
        requested = getattr(layout if name in _LAYOUT_FIELDS else workload, name)
        requested = getattr(requested, "value", requested)
        if requested is not None and requested != logged:
            yield f"the log says {name} {logged}, and the question {requested}"


def _is_version(text: str) -> bool:
    try:
        parse_version(text)
    except InvalidInputError:
        return False
    return True
