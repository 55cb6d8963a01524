"""Readings of whole GPUs, from their import to the answer that they raise, and back, against a real
database.
"""

from sqlalchemy.orm import Session, sessionmaker

from service.catalog.gpus import resolve_gpu
from service.db.records.stored import AccuracyFilter
from service.estimator.cache import PlanCache
from service.formats.measured.detect import parse
from service.formats.measured.reading import MIB
from service.usecases.imports import imports, stored_imports
from service.usecases.imports.imports import ImportReport
from service.usecases.jobs.withdrawals import withdraw
from service.usecases.learning.accuracy import read_accuracy
from service.usecases.learning.calibrations import list_changed_since
from service.usecases.learning.corrections import CorrectionCache
from service.usecases.questions.fit import FitQuestion, judge_fit
from tests.integration.usecases.test_imports import GPU, RELEASES, question, read

Sessions = sessionmaker[Session]


def sacct(*mebibytes: int) -> bytes:
    """Return the accounting of jobs of one GPU that used so much."""
    rows = [
        f"{job}.0|x|1|gres/gpu=1|gres/gpumem={size}M" for job, size in enumerate(mebibytes, start=1)
    ]
    return "\n".join(["JobID|JobName|NTasks|AllocTRES|TRESUsageInMax", *rows]).encode()


def stored(sessions: Sessions, data: bytes) -> ImportReport:
    """Import a file."""
    return stored_imports.store(sessions, read(data, environment=RELEASES))


def device_bytes(sessions: Sessions) -> int:
    """Return what a fit of the question answers now."""
    book = CorrectionCache(read_changed=lambda since: list_changed_since(sessions, since))
    book.refresh()
    asked = question()
    fit = FitQuestion(
        architecture=asked.architecture,
        workload=asked.workload,
        layout=asked.layout,
        device=resolve_gpu(GPU).to_device(),
    )
    return judge_fit(fit, plans=PlanCache(), find_corrections=book.find).estimate.device_bytes


def test_what_was_seen_raises_an_answer_until_it_is_withdrawn(sessions: Sessions) -> None:
    """A look above the answer is what it becomes, one below changes nothing, and what is withdrawn
    is forgotten.
    """
    before = device_bytes(sessions)
    more = round(before / MIB * 1.2)
    low = stored(sessions, sacct(round(before / MIB * 0.9)))
    assert device_bytes(sessions) == before
    high = stored(sessions, sacct(more))
    raised = device_bytes(sessions)
    [item] = high.items
    assert item.id is not None
    withdraw(sessions, item.id)

    assert 0 <= more * MIB - raised <= MIB
    assert device_bytes(sessions) == before
    assert [one.is_new for one in low.items] == [True]


def test_what_was_seen_is_a_class_of_its_own(sessions: Sessions) -> None:
    """Errors of looks stand beside those of peaks, and an answer above a look holds it."""
    before = device_bytes(sessions)
    stored(sessions, sacct(round(before / MIB * 0.5), round(before / MIB * 1.6)))

    [found] = read_accuracy(sessions, AccuracyFilter(quantity="device"))
    assert found.kind == "field, transformers training, full, alone"
    assert (found.count, found.before.coverage) == (2, 0.5)


def test_what_cannot_be_of_the_job_is_named(sessions: Sessions) -> None:
    """Twice the answer is no reading of this model: it is kept as a measurement, and teaches
    nothing.
    """
    before = device_bytes(sessions)
    stored(sessions, sacct(round(before / MIB * 2)))

    [calibration] = list_changed_since(sessions, None)
    assert "another model or process was on the GPU" in str(calibration.correction["rejected"])
    assert device_bytes(sessions) == before


def test_a_dry_run_says_that_it_is_a_bound() -> None:
    """Who brings a file learns what it will do before anything is stored."""
    [item] = imports.read_import(
        parse(sacct(20_000)),
        [question()],
        environment=RELEASES,
        plans=PlanCache(),
        find_corrections=None,
    ).items

    assert any(
        "device_bytes of such a run, and of larger ones, are at least as much" in note
        for note in item.notes
    )
