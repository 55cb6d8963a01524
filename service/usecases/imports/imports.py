"""Import of measurements from files of other tools.

They are read, and compared with a question.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from service.base.errors import InvalidRequestError
from service.calibration.key import build_calibration_key
from service.catalog.gpus import find_gpus, resolve_gpu
from service.db.records.claims import Claim
from service.estimator.cache import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.formats.measured.observe import Match, Observation, observe
from service.formats.measured.reading import LeftOut, Parsed, Reading
from service.jobs.contract import MeasureRequest, ModelSource, ProbeDevice, make_task
from service.usecases.imports.comparison import Comparison, QuantityComparison, compare
from service.usecases.imports.eligibility import explain_ineligibility
from service.usecases.imports.identities import hash_import
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
from service.usecases.learning.evidence import CLUSTER
from service.usecases.questions.fit import FindCorrections, FitQuestion

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
    cluster: str = ""
    """The stored cluster that it ran on; empty where none is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One job of the file as one measurement.

    With ``problems`` it cannot be stored; with an ``id`` it is stored. ``claim`` says who brought
    it, ``None`` where nobody was named.
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
    claim: Claim | None = None
    unnamed_hash: str | None = None
    """Hash of the same job where its cluster was not named."""


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
        fit_question = FitQuestion(
            architecture=question.architecture,
            workload=workload,
            layout=question.layout,
            device=resolve_gpu(gpu).to_device(),
            cluster=question.cluster,
        )
        comparison = compare(
            observation, fit_question, plans=plans, find_corrections=find_corrections
        )
        problems += _find_implausibilities(parsed, observation, fit_question, comparison)
    unnamed = _build_environment(parsed, observation, gpu, environment)
    run_environment = unnamed | ({CLUSTER: question.cluster} if question.cluster else {})
    return Item(
        job=observation.job,
        observation=observation,
        request=request,
        key=build_calibration_key(question.architecture, workload, question.layout),
        import_hash=hash_import(observation, request, run_environment),
        unnamed_hash=hash_import(observation, request, unnamed) if question.cluster else None,
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


def _find_implausibilities(
    parsed: Parsed, observation: Observation, question: FitQuestion, comparison: Comparison
) -> list[str]:
    """Return readings that no run can have, or that another engine has."""
    answer = comparison.analytic_estimate
    return [
        *find_impossible_readings(
            observation, question.device, bounds=compute_lower_bounds(answer, parsed)
        ),
        *find_engine_mismatches(observation, question, answer=answer),
    ]


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
    # Where it ran says whoever hands a file in, never the file.
    file_environment.pop(CLUSTER, None)
    return dict(environment) | file_environment | ({"host": ", ".join(hosts)} if hosts else {})
