"""Measurements of the field, against a real database."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import ImportRefusedError, InvalidRequestError
from service.estimator.cache import PlanCache
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Engine, ServeWorkload, TrainWorkload, Workload
from service.formats.measured.detect import parse
from service.formats.measured.observe import Match
from service.formats.measured.reading import MIB, Quantity
from service.jobs.contract import ModelSource
from service.usecases.imports import imports, stored_imports
from service.usecases.imports.imports import ImportQuestion, ImportReport
from service.usecases.jobs import measurements
from service.usecases.learning.calibrations import list_changed_since
from service.usecases.learning.corrections import CorrectionCache
from service.usecases.stored import MeasurementFilter, PageRequest
from service.usecases.stored_specs.spec_cache import load_catalogue_model
from tests.unit.formats.measured.reading_samples import sample

Sessions = sessionmaker[Session]
GPU = "A100-SXM4-80GB"
TRAINING = TrainWorkload(sequence_length=2048, precision=POLICIES["bf16"])
SACCT = b"""JobID|JobName|NTasks|AllocTRES|TRESUsageInMax
1|a||gres/gpu=1|
1.0|a|1|gres/gpu=1|gres/gpumem=20000M
2|b||gres/gpu=1|
2.0|b|1|gres/gpu=1|gres/gpumem=30000M
"""
RELEASES = {"torch": "2.13.0", "transformers": "5.23.0"}


def question(
    workload: Workload = TRAINING,
    *,
    model: str = "llama-3.2-1b",
    gpu: str | None = GPU,
    match: Match | None = None,
) -> ImportQuestion:
    """Return what ran: a small training, unless said otherwise."""
    known = load_catalogue_model(model)
    assert known is not None
    source = ModelSource(architecture=known.architecture.describe(), name=known.name, revision=1)
    return ImportQuestion(
        architecture=known.architecture,
        source=source,
        workload=workload,
        layout=Layout(),
        gpu=gpu,
        match=match or Match(),
    )


def read(
    data: bytes, *questions: ImportQuestion, environment: dict[str, str] | None = None
) -> ImportReport:
    """Return what a file would store."""
    asked = questions or (question(),)
    return imports.read_import(
        parse(data), asked, environment=environment or {}, plans=PlanCache(), find_corrections=None
    )


def stored(sessions: Sessions) -> int:
    """Return how many measurements there are."""
    return len(measurements.list_page(sessions, PageRequest(), MeasurementFilter()).items)


def test_a_dry_run_stores_nothing(sessions: Sessions) -> None:
    """It says of each job what is measured, what is predicted, and that it would be new."""
    report = stored_imports.look_up(sessions, read(SACCT))

    assert [(item.job, item.is_new, item.id) for item in report.items] == [
        ("1", True, None),
        ("2", True, None),
    ]
    [compared] = report.items[0].compared
    assert (compared.quantity, compared.measured.value) == (Quantity.DEVICE, 20000 * MIB)
    assert compared.error == compared.predicted / (20000 * MIB) - 1
    assert stored(sessions) == 0


def test_every_job_becomes_a_measurement(sessions: Sessions) -> None:
    """With its source, its readings, its environment and its error, and over from the start."""
    report = stored_imports.store(sessions, read(SACCT, environment={"driver": "535.104.05"}))
    first = report.items[0]
    assert first.id is not None
    found = measurements.read(sessions, first.id)

    assert stored(sessions) == 2
    assert (found.source, found.family, found.task, found.status, found.phase) == (
        "import",
        "llama",
        "train",
        "succeeded",
        "imported",
    )
    assert (found.gpu, found.model_name, found.device) == (GPU, "llama-3.2-1b", "cuda")
    assert found.result is not None
    assert found.result.peaks["device_bytes"] == 20000 * MIB
    assert found.result.environment == {"format": "sacct", "driver": "535.104.05", "gpu": GPU}
    assert [reading["line"] for reading in found.result.readings] == [3]
    assert found.result.calibration_id is None
    assert measurements.list_events_after(sessions, first.id, seq=0).is_last


def test_the_same_is_not_stored_twice(sessions: Sessions) -> None:
    """Neither again, nor in a longer file; another question about it is another measurement."""
    once = stored_imports.store(sessions, read(SACCT))
    longer = SACCT + b"3|c||gres/gpu=1|\n3.0|c|1|gres/gpu=1|gres/gpumem=40000M\n"
    again = stored_imports.store(
        sessions, read(b"\n".join([SACCT.split(b"\n")[0], *longer.split(b"\n")[1:]]))
    )

    assert [item.is_new for item in again.items] == [False, False, True]
    assert [item.id for item in again.items[:2]] == [item.id for item in once.items]
    assert stored(sessions) == 3
    other = stored_imports.store(
        sessions,
        read(SACCT, question(TrainWorkload(sequence_length=4096, precision=POLICIES["bf16"]))),
    )
    assert [item.is_new for item in other.items] == [True, True]


def test_two_at_once_store_one(sessions: Sessions) -> None:
    """Whoever comes second gets the other's measurement."""
    reports = [read(SACCT) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(lambda report: stored_imports.store(sessions, report), reports))

    assert stored(sessions) == 2
    assert len({item.id for report in done for item in report.items}) == 2
    assert sum(item.is_new for report in done for item in report.items) == 2


def test_one_wrong_job_keeps_all_of_them_out(sessions: Sessions) -> None:
    """Half a file would be worse than none: nobody would know which half."""
    text = SACCT.replace(b"2.0|b|1|gres/gpu=1", b"2.0|b|1|gres/gpu:h100=1,gres/gpu=1")
    report = read(text.replace(b"gres/gpu:h100", b"gres/gpu:nvidia_h100_80gb_hbm3"))

    with pytest.raises(ImportRefusedError) as caught:
        stored_imports.store(sessions, report)

    assert caught.value.extra["errors"] == [
        {
            "field": "items[1]",
            "message": f"the file names the GPU 'nvidia_h100_80gb_hbm3', and the question {GPU}",
        },
    ]
    assert stored(sessions) == 0


def test_a_file_of_too_many_jobs_is_refused() -> None:
    """One request is answered in seconds, whatever is in it."""
    rows = [f"{job}.0|x|1|gres/gpu=1|gres/gpumem=1M" for job in range(imports.MAX_JOBS + 1)]

    with pytest.raises(InvalidRequestError, match="1,001 jobs"):
        read("\n".join([SACCT.split(b"\n")[0].decode(), *rows]).encode())


def test_a_reading_that_bounds_nothing_is_promised_nothing() -> None:
    """20,000 MiB may be a job of 16 GB, and 30,000 MiB hold somebody else as well: what is said is
    what will be learnt.
    """
    bound, beyond = (item.notes[-1] for item in read(SACCT, environment=RELEASES).items)

    assert "are at least as much from now on" in bound
    assert beyond.startswith("corrects no answer: ")
    assert beyond.endswith("another model or process was on the GPU")


def test_jobs_have_questions_of_their_own(sessions: Sessions) -> None:
    """The first that matches has a reading; what nobody asks about is left out."""
    asked = question(match=Match(name="b"))
    report = stored_imports.store(sessions, read(SACCT, asked))

    assert [item.job for item in report.items] == ["2"]
    assert (report.left_out[-1].reason, report.left_out[-1].line) == (imports.NO_JOB, 3)


def test_an_allocators_own_peak_teaches(sessions: Sessions) -> None:
    """What memory_stats() counted corrects the next answer; one question's numbers change nobody
    else's.
    """
    book = CorrectionCache(read_changed=lambda since: list_changed_since(sessions, since))
    plain = (
        read(json.dumps({"allocated_bytes.all.peak": 1, "reserved_bytes.all.peak": 1}).encode())
        .items[0]
        .compared[0]
    )
    measured = round(plain.predicted * 1.07)
    stats = json.dumps(
        {"allocated_bytes.all.peak": measured, "reserved_bytes.all.peak": measured + 64 * MIB}
    ).encode()
    report = stored_imports.store(sessions, read(stats, environment=RELEASES))
    assert report.items[0].id is not None
    result = measurements.read(sessions, report.items[0].id).result
    assert result is not None
    book.refresh()
    after = imports.read_import(
        parse(stats),
        [question()],
        environment=RELEASES,
        plans=PlanCache(),
        find_corrections=book.find,
    )

    assert result.calibration_id is not None
    compared = {one.quantity: one for one in after.items[0].compared}
    assert compared[Quantity.ALLOCATED].predicted == plain.predicted
    assert compared[Quantity.ALLOCATED].calibrated == pytest.approx(measured, rel=0.002)


def test_a_peak_is_that_of_the_whole_step(sessions: Sessions) -> None:
    """What was measured below the answers about two instants is what is answered then, and not the
    lower one of them.
    """
    measured = 7_000_000_000
    peaks = {"allocated_bytes.all.peak": measured, "reserved_bytes.all.peak": measured + MIB}
    asked = question(
        TrainWorkload(sequence_length=2048, precision=POLICIES["bf16"], optimizer="sgd")
    )
    stored_imports.store(sessions, read(json.dumps(peaks).encode(), asked, environment=RELEASES))
    book = CorrectionCache(read_changed=lambda since: list_changed_since(sessions, since))
    book.refresh()
    again = imports.read_import(
        parse(json.dumps(peaks).encode()),
        [asked],
        environment=RELEASES,
        plans=PlanCache(),
        find_corrections=book.find,
    )

    [found] = [one for one in again.items[0].compared if one.quantity is Quantity.ALLOCATED]
    assert (found.measured.value, found.calibrated) == (measured, measured)
    assert found.predicted > measured


def test_a_log_settles_what_the_question_leaves_open() -> None:
    """Lengths, fractions and the version come from the log, each with a line that says so."""
    serving = ServeWorkload(
        num_sequences=8, prompt_tokens=1024, output_tokens=128, engine=Engine.VLLM
    )
    [item] = read(sample("vllm_0_19.log"), question(serving, model="llama-3.1-8b")).items

    asked = item.request.task.workload
    assert isinstance(asked, ServeWorkload)
    assert (asked.max_model_len, asked.engine_version) == (8192, "0.19.0")
    assert "max_model_len = 8192, as the log says" in item.notes
    assert item.problems == ()
    compared = {one.quantity: one for one in item.compared}
    assert abs(compared[Quantity.WEIGHTS].error) < 0.005
    assert {Quantity.KV_POOL, Quantity.KV_POOL_TOKENS, Quantity.CUDA_GRAPHS} <= compared.keys()


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        (TRAINING, "the file is a log of vllm, and the workload is training"),
        (
            ServeWorkload(num_sequences=1, prompt_tokens=8, engine=Engine.SGLANG),
            "the workload is sglang",
        ),
        (
            ServeWorkload(num_sequences=1, prompt_tokens=8, engine=Engine.VLLM, max_model_len=4096),
            "the log says max_model_len 8192, and the question 4096",
        ),
    ],
)
def test_a_log_that_contradicts_its_question_is_refused(workload: Workload, says: str) -> None:
    """Numbers of another run would teach nonsense."""
    [item] = read(sample("vllm_0_19.log"), question(workload, model="llama-3.1-8b")).items

    assert says in item.problems[0]
    assert item.compared == ()


def test_the_file_may_name_the_gpu() -> None:
    """As its driver does; where it does not, the question must."""
    table, none = (
        read(sample("nvidia_smi_table.txt"), question(gpu=None)),
        read(SACCT, question(gpu=None)),
    )

    assert table.items[0].request.gpu == GPU
    assert none.items[0].problems == ("the file names no GPU: say which with gpu",)
