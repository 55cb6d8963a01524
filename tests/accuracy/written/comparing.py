"""A written family beside a recording of its type, and a trace of the model of both."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.recorded.architecture import RecordedArchitecture, build_recorded
from service.estimator.model.recorded.recorded_model import RecordedModel
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import TrainWorkload, Workload
from service.jobs.contract import ModelSource, ProbeDevice, ProbeRequest, make_task
from service.probing.refusal import Refusal
from tests.accuracy.written.questions import QUESTIONS, make_config, make_workload
from tests.accuracy.written.rows import Instants, Row
from worker.probes.architecture.listening.variants import VARIANTS
from worker.probes.architecture.record import record_model
from worker.probes.measure import measure

_HOST = Device(name="host", capacity_bytes=2**60, usable_bytes=2**60)
Record = Callable[..., RecordedModel]
TRACED = ("bf16",)
"""Questions of which a trace is made even where both answers are equal."""


def record_anew(config: Mapping[str, object], *names: str) -> RecordedModel:
    """Record a model in some variants."""
    return record_model(config, {name: VARIANTS[name] for name in names})


def compare(
    model_type: str,
    names: Sequence[str],
    *,
    traced: Sequence[str] = TRACED,
    record: Record = record_anew,
) -> Iterator[Row]:
    """Yield a row of each question, those that share variants recorded once."""
    config = make_config(model_type)
    written = architecture_from_config(config)
    recordings: dict[tuple[str, ...], Architecture | str] = {}
    for name in names:
        variants = QUESTIONS[name].variants
        if variants not in recordings:
            recordings[variants] = _build(config, variants, record)
        recorded = recordings[variants]
        workload = make_workload(model_type, name)
        if isinstance(recorded, str):
            yield Row(model_type=model_type, question=name, refusal=f"recording: {recorded}")
            continue
        try:
            told = _tell_items(recorded, workload)
            answers = [_answer(written, workload), _answer(recorded, told)]
        except (EstimatorError, LookupError) as error:
            yield Row(model_type=model_type, question=name, refusal=f"estimate: {error!r}")
            continue
        differs = answers[0] != answers[1]
        yield Row(
            model_type=model_type,
            question=name,
            written=answers[0],
            recorded=answers[1],
            traced=trace(config, workload) if differs or name in traced else None,
        )


def _build(
    config: Mapping[str, object], variants: Sequence[str], record: Record
) -> Architecture | str:
    """Return a recording's tree, or why there is none."""
    try:
        return build_recorded(record(config, *variants))
    except (Refusal, EstimatorError) as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - a row says what is raised
        return repr(error)


def _tell_items(model: Architecture, workload: Workload) -> Workload:
    """Return a workload as a recording has it, in which an image is one item."""
    reads = model.recorded.reads if isinstance(model, RecordedArchitecture) else None
    if reads is None or reads.grows or not isinstance(workload, TrainWorkload):
        return workload
    return replace(workload, sequence_length=1)


def _answer(model: Architecture, workload: Workload) -> Instants:
    answer = estimate(model, workload, layout=Layout(), device=_HOST)
    return {instant.name: instant.allocated_bytes for instant in answer.instants}


def trace(config: Mapping[str, object], workload: Workload) -> Instants | None:
    """Return what a traced run of transformers' own code takes, None where it is refused."""
    request = ProbeRequest(
        model=ModelSource(architecture={}, hf_config=dict(config)),
        task=make_task(workload),
        layout=Layout(),
        device=ProbeDevice.TRACE,
        full_depth=True,
        deadline_s=600.0,
    )
    try:
        result = measure(request, lambda _line: None)
    except Refusal:
        return None
    return {instant.name: instant.allocated_bytes for instant in result.instants}
