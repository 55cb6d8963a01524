"""Import of measurements from files of other tools.

They are read, compared with a question, and stored with where they come from.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from uuid import UUID, uuid4

from service.base.errors import ImportRefusedError, InvalidRequestError
from service.calibration.key import build_calibration_key
from service.catalog.gpus import find_gpus, resolve_gpu
from service.db.queries import imports as queries
from service.db.records.measurements import NewImport
from service.db.session import transaction
from service.estimator.cache import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.formats.measured.observe import Match, Observation, observe
from service.formats.measured.reading import LeftOut, Parsed, Quantity, Reading
from service.jobs.contract import MeasureRequest, ModelSource, ProbeDevice, make_document, make_task
from service.usecases.imports.comparison import Comparison, QuantityComparison, compare
from service.usecases.imports.eligibility import explain_ineligibility
from service.usecases.imports.log_settings import (
    fill_from_log,
    find_contradictions,
    find_gpu_count_mismatches,
)
from service.usecases.imports.plausibility import (
    compute_lower_bounds,
    find_engine_mismatches,
    find_impossible_readings,
)
from service.usecases.learning.learning import learn
from service.usecases.questions.fit import FindCorrections, FitQuestion
from service.usecases.stored import Sessions

NO_JOB = "no job of the request matches where this was taken"
MAX_JOBS = 1000
Document = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportQuestion:
    """A run, and the match that finds its readings in a file.

    ``gpu`` is a SKU, ``None`` where the file is to say it.
    """

    architecture: Architecture
    source: ModelSource
    workload: Workload
    layout: Layout
    gpu: str | None
    match: Match


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One job of the file as one measurement.

    With ``problems`` it cannot be stored; with an ``id`` it is stored.
    """

    job: str | None
    observation: Observation
    request: MeasureRequest
    key: str
    import_hash: str
    environment: Mapping[str, str]
    compared: tuple[QuantityComparison, ...]
    out_of_memory: bool
    notes: tuple[str, ...]
    problems: tuple[str, ...] = ()
    id: UUID | None = None
    is_new: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """Measurements that a file yields, and what was left out."""

    items: tuple[Item, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]


def read_import(
    parsed: Parsed,
    questions: Sequence[ImportQuestion],
    *,
    environment: Mapping[str, str],
    plans: PlanCache,
    find_corrections: FindCorrections | None,
) -> ImportReport:
    """Return the measurements of a file without storing them."""
    items: list[Item] = []
    left_out = list(parsed.left_out)
    check_job_count(parsed)
    for question, readings in _match_readings(parsed.readings, questions):
        if question is None:
            left_out += [
                LeftOut(what=reading.place.label(), reason=NO_JOB, line=reading.line)
                for reading in readings
            ]
            continue
        observed, ambiguous = observe(readings, num_gpus=question.layout.num_gpus)
        left_out += ambiguous
        items += [
            _build_item(
                parsed,
                observation,
                question,
                environment=environment,
                plans=plans,
                find_corrections=find_corrections,
            )
            for observation in observed
        ]
    return ImportReport(items=tuple(items), left_out=tuple(left_out), notes=parsed.notes)


def check_job_count(parsed: Parsed) -> None:
    """Refuse a file of more jobs than one request answers."""
    jobs = {reading.place.job for reading in parsed.readings}
    if len(jobs) > MAX_JOBS:
        message = (
            f"the file has {len(jobs):,} jobs with readings; at most {MAX_JOBS:,} are imported at "
            "once: split it"
        )
        raise InvalidRequestError(message, errors=[{"field": "content", "message": message}])


def look_up(sessions: Sessions, report: ImportReport) -> ImportReport:
    """Mark the items of a report that are stored already."""
    with transaction(sessions) as session:
        stored_ids = queries.read_imported_ids(session, [item.import_hash for item in report.items])
    return replace(report, items=tuple(_mark_stored(item, stored_ids) for item in report.items))


def store(sessions: Sessions, report: ImportReport) -> ImportReport:
    """Store all new measurements of a file, or none.

    What was stored before keeps its measurement.
    """
    check_storable(report)
    new_ids = {item.import_hash: uuid4() for item in report.items}
    with transaction(sessions) as session:
        stored_ids = queries.read_imported_ids(session, list(new_ids))
        for item in report.items:
            if item.import_hash not in stored_ids:
                # Somebody may import the same at this moment: his measurement is then the one that
                # is known.
                stored_ids[item.import_hash] = queries.insert_import(
                    session, _make_row(item, new_ids[item.import_hash])
                )
        new = [
            item
            for item in report.items
            if stored_ids[item.import_hash] == new_ids[item.import_hash]
        ]
        # In the order of their keys, each of which is locked: two imports at once must not wait for
        # each other.
        for item in sorted(new, key=lambda item: item.key):
            queries.set_calibration(
                session,
                new_ids[item.import_hash],
                learn(session, new_ids[item.import_hash], key=item.key),
            )
    stored = tuple(
        replace(
            item,
            id=stored_ids[item.import_hash],
            is_new=stored_ids[item.import_hash] == new_ids[item.import_hash],
        )
        for item in report.items
    )
    return replace(report, items=stored)


def check_storable(report: ImportReport) -> None:
    """Refuse a file with a contradicting job, or without any job."""
    if not report.items:
        why = f"; {report.left_out[0].what}: {report.left_out[0].reason}" if report.left_out else ""
        message = f"nothing was stored: no reading of the file is of the question{why}"
        raise ImportRefusedError(message, errors=[{"field": "content", "message": message}])
    wrong = [
        (index, problem) for index, item in enumerate(report.items) for problem in item.problems
    ]
    if wrong:
        errors = [{"field": f"items[{index}]", "message": problem} for index, problem in wrong]
        jobs = len({index for index, _ in wrong})
        message = (
            f"{jobs} of {len(report.items)} jobs cannot be stored, so none was; the first: "
            f"{wrong[0][1]}"
        )
        raise ImportRefusedError(message, errors=errors)


def _match_readings(
    readings: Iterable[Reading], questions: Sequence[ImportQuestion]
) -> Iterator[tuple[ImportQuestion | None, list[Reading]]]:
    """Yield each question with its readings.

    A reading goes to the first question that matches it.
    """
    by_index: dict[int | None, list[Reading]] = {}
    for reading in readings:
        index = next(
            (index for index, question in enumerate(questions) if question.match.matches(reading)),
            None,
        )
        by_index.setdefault(index, []).append(reading)
    yield from (
        (None if index is None else questions[index], matched)
        for index, matched in by_index.items()
    )


def _build_item(
    parsed: Parsed,
    observation: Observation,
    question: ImportQuestion,
    *,
    environment: Mapping[str, str],
    plans: PlanCache,
    find_corrections: FindCorrections | None,
) -> Item:
    gpu, problems = _resolve_gpu(observation, question)
    workload, notes = fill_from_log(parsed, question.workload)
    problems += find_contradictions(
        parsed, question.architecture, question.workload, question.layout
    )
    problems += find_gpu_count_mismatches(observation.readings, question.layout)
    request = MeasureRequest(
        model=question.source,
        task=make_task(workload),
        layout=question.layout,
        device=ProbeDevice.CUDA,
        gpu=gpu,
        full_depth=True,
    )
    comparison = Comparison()
    if gpu is not None and not problems:
        device = resolve_gpu(gpu).to_device()
        fit_question = FitQuestion(
            architecture=question.architecture,
            workload=workload,
            layout=question.layout,
            device=device,
        )
        comparison = compare(
            observation, fit_question, plans=plans, find_corrections=find_corrections
        )
        problems += find_impossible_readings(
            observation, device, bounds=compute_lower_bounds(comparison.analytic_estimate, parsed)
        )
        problems += find_engine_mismatches(
            observation, fit_question, answer=comparison.analytic_estimate
        )
    run_environment = _build_environment(parsed, observation, gpu, environment)
    return Item(
        job=observation.job,
        observation=observation,
        request=request,
        key=build_calibration_key(question.architecture, workload, question.layout),
        import_hash=_hash_import(observation, request, run_environment),
        environment=run_environment,
        compared=comparison.quantities,
        out_of_memory=parsed.out_of_memory,
        notes=(
            *parsed.notes,
            *notes,
            *comparison.notes,
            *observation.notes(),
            *explain_ineligibility(
                observation.peaks, run_environment, workload, excess=comparison.excess_reason
            ),
        ),
        problems=tuple(problems),
    )


def _resolve_gpu(
    observation: Observation, question: ImportQuestion
) -> tuple[str | None, list[str]]:
    """Return the SKU and any problem with it.

    The question says it, or the file.
    """
    named = observation.gpu_name
    entries = find_gpus(named) if named is not None else ()
    if question.gpu is None:
        if len(entries) == 1:
            return entries[0].name, []
        problem = (
            "the file names no GPU"
            if named is None
            else f"the file calls its GPU {named!r}, which is no single one we know"
        )
        return None, [f"{problem}: say which with gpu"]
    if entries and question.gpu not in {entry.name for entry in entries}:
        return question.gpu, [f"the file names the GPU {named!r}, and the question {question.gpu}"]
    return question.gpu, []


def _build_environment(
    parsed: Parsed, observation: Observation, gpu: str | None, environment: Mapping[str, str]
) -> dict[str, str]:
    file_environment = {"format": parsed.format.value} | dict(parsed.environment)
    named = observation.gpu_name
    # A driver's own name says more than ours; Slurm's, which often means several SKUs, says less.
    if (name := named if named is not None and len(find_gpus(named)) == 1 else gpu) is not None:
        file_environment["gpu"] = name
    hosts = sorted({reading.place.host for reading in observation.readings if reading.place.host})
    return dict(environment) | file_environment | ({"host": ", ".join(hosts)} if hosts else {})


def _mark_stored(item: Item, stored_ids: Mapping[str, UUID]) -> Item:
    stored_id = stored_ids.get(item.import_hash)
    return item if stored_id is None else replace(item, id=stored_id, is_new=False)


def _hash_import(
    observation: Observation, request: MeasureRequest, environment: Mapping[str, str]
) -> str:
    """Return a hash of the readings of a job and its question.

    Equal imports have equal hashes.
    """
    # The same job in a longer file stands on another line.
    readings = [
        {**make_reading_document(reading), "line": None} for reading in observation.readings
    ]
    content = {
        "job": observation.job,
        "readings": readings,
        "request": make_document(request),
        "environment": dict(environment),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def make_reading_document(reading: Reading) -> Document:
    """Return a reading as JSON values, without unknown ones in its place."""
    place = {name: value for name, value in asdict(reading.place).items() if value is not None}
    return {
        "quantity": reading.quantity.value,
        "value": reading.value,
        "low": reading.low,
        "high": reading.high,
        "sampled": reading.sampled,
        "num_samples": reading.num_samples,
        "place": place,
        "line": reading.line,
        "since": reading.since,
        "until": reading.until,
    }


def make_peaks_document(item: Item) -> Document:
    """Return the peaks of a measurement.

    Figures of an engine's parts stand beside them, under ``engine``.
    """
    values = {quantity: reading.value for quantity, reading in item.observation.peaks.items()}
    usual = (Quantity.ALLOCATED, Quantity.RESERVED, Quantity.DEVICE, Quantity.DEVICE_TOTAL_USED)
    peaks: Document = {quantity.value: values.get(quantity) for quantity in usual}
    engine = {quantity.value: value for quantity, value in values.items() if quantity not in usual}
    return (
        peaks
        | {"process_rss_bytes": None, "out_of_memory": item.out_of_memory}
        | ({"engine": engine} if engine else {})
    )


def make_prediction_document(item: Item) -> Document | None:
    """Return predictions beside measurements, as JSON values.

    Those of allocated bytes come first, as of any measurement, then those of each quantity.
    """
    if not item.compared:
        return None
    allocated = next(
        (comparison for comparison in item.compared if comparison.quantity is Quantity.ALLOCATED),
        None,
    )
    return {
        "allocated_bytes": None if allocated is None else allocated.predicted,
        "error": None if allocated is None else allocated.error,
        "quantities": [comparison.to_document() for comparison in item.compared],
    }


def _make_row(item: Item, measurement_id: UUID) -> NewImport:
    return NewImport(
        id=measurement_id,
        import_hash=item.import_hash,
        request=item.request,
        key=item.key,
        environment=item.environment,
        peaks=make_peaks_document(item),
        prediction=make_prediction_document(item),
        readings=[make_reading_document(reading) for reading in item.observation.readings],
        notes=item.notes,
    )
