"""Measurements that somebody else took: read from a file, held against a question, and stored with where they come from."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from uuid import UUID, uuid4

from service.base.errors import ImportRefusedError, InvalidRequestError
from service.calibration.key import calibration_key
from service.catalog.gpus import entries_named, resolve_gpu
from service.db.queries import imports as queries
from service.db.records.measurements import NewImport
from service.db.session import transaction
from service.estimator.estimate import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.formats.measured.observe import Match, Observation, observe
from service.formats.measured.reading import LeftOut, Parsed, Quantity, Reading
from service.jobs.contract import MeasureRequest, ModelSource, ProbeDevice, document_of, task_of
from service.usecases.imports.comparison import Compared, Comparison, compare
from service.usecases.imports.eligibility import why_silent
from service.usecases.imports.log_settings import contradictions, miscounted, settle
from service.usecases.imports.plausibility import impossible, least_of, unlike
from service.usecases.learning.learning import learn
from service.usecases.questions.fit import FindCorrections, FitQuestion
from service.usecases.stored import Sessions

NO_JOB = "no job of the request matches where this was taken"
MAX_JOBS = 1000
Document = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportQuestion:
    """What ran, and which readings of the file are of it; ``gpu`` is a SKU, ``None`` where the file is to say it."""

    architecture: Architecture
    source: ModelSource
    workload: Workload
    layout: Layout
    gpu: str | None
    match: Match


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One job of the file as one measurement; with ``problems`` it cannot be stored, with an ``id`` it is."""

    job: str | None
    observation: Observation
    request: MeasureRequest
    key: str
    import_hash: str
    environment: Mapping[str, str]
    compared: tuple[Compared, ...]
    out_of_memory: bool
    notes: tuple[str, ...]
    problems: tuple[str, ...] = ()
    id: UUID | None = None
    is_new: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """Everything that a file holds: what becomes a measurement, and what does not."""

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
    """Return what a file would store; nothing is stored."""
    items: list[Item] = []
    left_out = list(parsed.left_out)
    require_few(parsed)
    for question, readings in _matched(parsed.readings, questions):
        if question is None:
            left_out += [LeftOut(what=reading.place.label(), reason=NO_JOB, line=reading.line) for reading in readings]
            continue
        observed, unclear = observe(readings, num_gpus=question.layout.num_gpus)
        left_out += unclear
        items += [
            _item(parsed, one, question, environment=environment, plans=plans, find_corrections=find_corrections)
            for one in observed
        ]
    return ImportReport(items=tuple(items), left_out=tuple(left_out), notes=parsed.notes)


def require_few(parsed: Parsed) -> None:
    """Refuse a file of more jobs than one request answers."""
    jobs = {reading.place.job for reading in parsed.readings}
    if len(jobs) > MAX_JOBS:
        message = f"the file has {len(jobs):,} jobs with readings; at most {MAX_JOBS:,} are imported at once: split it"
        raise InvalidRequestError(message, errors=[{"field": "content", "message": message}])


def look_up(sessions: Sessions, report: ImportReport) -> ImportReport:
    """Return the report with what of it is stored already."""
    with transaction(sessions) as session:
        known = queries.imported(session, [item.import_hash for item in report.items])
    return replace(report, items=tuple(_known(item, known) for item in report.items))


def store(sessions: Sessions, report: ImportReport) -> ImportReport:
    """Store all that is new in a file, or nothing of it; what was stored before keeps its measurement."""
    refuse(report)
    made = {item.import_hash: uuid4() for item in report.items}
    with transaction(sessions) as session:
        known = queries.imported(session, list(made))
        for item in report.items:
            if item.import_hash not in known:
                # Somebody may import the same at this moment: his measurement is then the one that is known.
                known[item.import_hash] = queries.insert_import(session, _row(item, made[item.import_hash]))
        new = [item for item in report.items if known[item.import_hash] == made[item.import_hash]]
        # In the order of their keys, each of which is locked: two imports at once must not wait for each other.
        for item in sorted(new, key=lambda item: item.key):
            queries.set_calibration(session, made[item.import_hash], learn(session, made[item.import_hash], key=item.key))
    stored = tuple(
        replace(item, id=known[item.import_hash], is_new=known[item.import_hash] == made[item.import_hash])
        for item in report.items
    )
    return replace(report, items=stored)


def refuse(report: ImportReport) -> None:
    """Refuse a file of which any job contradicts its question, or none answers it."""
    if not report.items:
        why = f"; {report.left_out[0].what}: {report.left_out[0].reason}" if report.left_out else ""
        message = f"nothing was stored: no reading of the file is of the question{why}"
        raise ImportRefusedError(message, errors=[{"field": "content", "message": message}])
    wrong = [(index, problem) for index, item in enumerate(report.items) for problem in item.problems]
    if wrong:
        errors = [{"field": f"items[{index}]", "message": problem} for index, problem in wrong]
        jobs = len({index for index, _ in wrong})
        message = f"{jobs} of {len(report.items)} jobs cannot be stored, so none was; the first: {wrong[0][1]}"
        raise ImportRefusedError(message, errors=errors)


def _matched(
    readings: Iterable[Reading], questions: Sequence[ImportQuestion]
) -> Iterator[tuple[ImportQuestion | None, list[Reading]]]:
    """Yield each question with its readings: those of the first one that holds for them."""
    taken: dict[int | None, list[Reading]] = {}
    for reading in readings:
        index = next((index for index, question in enumerate(questions) if question.match.holds(reading)), None)
        taken.setdefault(index, []).append(reading)
    yield from ((None if index is None else questions[index], own) for index, own in taken.items())


def _item(
    parsed: Parsed,
    observation: Observation,
    question: ImportQuestion,
    *,
    environment: Mapping[str, str],
    plans: PlanCache,
    find_corrections: FindCorrections | None,
) -> Item:
    gpu, problems = _gpu(observation, question)
    workload, notes = settle(parsed, question.workload)
    problems += contradictions(parsed, question.architecture, question.workload, question.layout)
    problems += miscounted(observation.readings, question.layout)
    request = MeasureRequest(
        model=question.source,
        task=task_of(workload),
        layout=question.layout,
        device=ProbeDevice.CUDA,
        gpu=gpu,
        full_depth=True,
    )
    found = Comparison()
    if gpu is not None and not problems:
        device = resolve_gpu(gpu).device()
        asked = FitQuestion(architecture=question.architecture, workload=workload, layout=question.layout, device=device)
        found = compare(observation, asked, plans=plans, find_corrections=find_corrections)
        problems += impossible(observation, device, least=least_of(found.plain, parsed))
        problems += unlike(observation, asked, answer=found.plain)
    told = _told(parsed, observation, gpu, environment)
    return Item(
        job=observation.job,
        observation=observation,
        request=request,
        key=calibration_key(question.architecture, workload, question.layout),
        import_hash=_hash(observation, request, told),
        environment=told,
        compared=found.quantities,
        out_of_memory=parsed.out_of_memory,
        notes=(
            *parsed.notes,
            *notes,
            *found.notes,
            *observation.notes(),
            *why_silent(observation.peaks, told, workload, excess=found.excess),
        ),
        problems=tuple(problems),
    )


def _gpu(observation: Observation, question: ImportQuestion) -> tuple[str | None, list[str]]:
    """Return the SKU, as the question or the file says it, and what stands against it."""
    named = observation.gpu_name
    found = entries_named(named) if named is not None else ()
    if question.gpu is None:
        if len(found) == 1:
            return found[0].name, []
        said = "the file names no GPU" if named is None else f"the file calls its GPU {named!r}, which is no single one we know"
        return None, [f"{said}: say which with gpu"]
    if found and question.gpu not in {entry.name for entry in found}:
        return question.gpu, [f"the file names the GPU {named!r}, and the question {question.gpu}"]
    return question.gpu, []


def _told(parsed: Parsed, observation: Observation, gpu: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    own = {"format": parsed.format.value} | dict(parsed.environment)
    named = observation.gpu_name
    # A driver's own name says more than ours; Slurm's, which often means several SKUs, says less.
    if (name := named if named is not None and len(entries_named(named)) == 1 else gpu) is not None:
        own["gpu"] = name
    hosts = sorted({reading.place.host for reading in observation.readings if reading.place.host})
    return dict(environment) | own | ({"host": ", ".join(hosts)} if hosts else {})


def _known(item: Item, known: Mapping[str, UUID]) -> Item:
    found = known.get(item.import_hash)
    return item if found is None else replace(item, id=found, is_new=False)


def _hash(observation: Observation, request: MeasureRequest, told: Mapping[str, str]) -> str:
    """Return what tells two imports apart: the readings of a job, and the question that they are said to answer."""
    # The same job in a longer file stands on another line.
    readings = [{**reading_document(reading), "line": None} for reading in observation.readings]
    content = {"job": observation.job, "readings": readings, "request": document_of(request), "environment": dict(told)}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def reading_document(reading: Reading) -> Document:
    """Return a reading as JSON values, nothing unknown among them."""
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


def peaks_document(item: Item) -> Document:
    """Return the peaks of a measurement; what an engine says of its parts stands beside them."""
    values = {quantity: reading.value for quantity, reading in item.observation.peaks.items()}
    usual = (Quantity.ALLOCATED, Quantity.RESERVED, Quantity.DEVICE, Quantity.DEVICE_TOTAL_USED)
    peaks: Document = {quantity.value: values.get(quantity) for quantity in usual}
    engine = {quantity.value: value for quantity, value in values.items() if quantity not in usual}
    return peaks | {"process_rss_bytes": None, "out_of_memory": item.out_of_memory} | ({"engine": engine} if engine else {})


def prediction_document(item: Item) -> Document | None:
    """Return what the estimator says beside what was measured: of allocated bytes as of any measurement, then of each."""
    if not item.compared:
        return None
    allocated = next((one for one in item.compared if one.quantity is Quantity.ALLOCATED), None)
    return {
        "allocated_bytes": None if allocated is None else allocated.predicted,
        "error": None if allocated is None else allocated.error,
        "quantities": [one.document() for one in item.compared],
    }


def _row(item: Item, measurement_id: UUID) -> NewImport:
    return NewImport(
        id=measurement_id,
        import_hash=item.import_hash,
        request=item.request,
        key=item.key,
        environment=item.environment,
        peaks=peaks_document(item),
        prediction=prediction_document(item),
        readings=[reading_document(reading) for reading in item.observation.readings],
        notes=item.notes,
    )
