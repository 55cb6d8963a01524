"""Files of another run than the question's are refused: another model's log, a job of other GPUs,
or nothing of it at all.
"""

import pytest

from service.base.errors import ImportRefusedError
from service.estimator.cache import PlanCache
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import (
    Engine,
    Quantization,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.formats.measured.detect import parse
from service.formats.measured.observe import Match
from service.jobs.contract import ModelSource
from service.usecases.imports.imports import ImportQuestion, ImportReport, read_import
from service.usecases.imports.stored_imports import check_storable
from service.usecases.stored_specs.spec_cache import load_catalogue_model
from tests.unit.formats.measured.reading_samples import sample

VLLM = ServeWorkload(num_sequences=1, prompt_tokens=128, output_tokens=128, engine=Engine.VLLM)
SGLANG = ServeWorkload(num_sequences=1, prompt_tokens=128, output_tokens=128, engine=Engine.SGLANG)
AWQ = ServeWorkload(
    num_sequences=1,
    prompt_tokens=128,
    output_tokens=128,
    engine=Engine.VLLM,
    quantization=Quantization.AWQ_INT4,
)
TRAINING = TrainWorkload(sequence_length=1024, precision=POLICIES["bf16"])
SACCT = b"JobID|NTasks|AllocTRES|TRESUsageInMax\n7||gres/gpu:a100=%d|\n7.%s|%d|gres/gpu:a100=%d|gres/gpumem=30000M\n"  # noqa: E501


def read(
    data: bytes,
    workload: Workload,
    *,
    model: str = "llama-3.1-8b",
    gpu: str = "H100-SXM5-80GB",
    layout: Layout | None = None,
    match: Match | None = None,
) -> ImportReport:
    """Return what becomes of a file that is said to be of a model's run."""
    known = load_catalogue_model(model)
    assert known is not None
    question = ImportQuestion(
        architecture=known.architecture,
        source=ModelSource(architecture={}),
        workload=workload,
        layout=layout or Layout(),
        gpu=gpu,
        match=match or Match(),
    )
    return read_import(
        parse(data), [question], environment={}, plans=PlanCache(), find_corrections=None
    )


def problems(report: ImportReport) -> str:
    """Return all that stands against the jobs of a file."""
    return "; ".join(problem for item in report.items for problem in item.problems)


@pytest.mark.parametrize(
    ("name", "workload", "gpu", "says"),
    [
        ("sglang_draft.log", SGLANG, "H100-SXM5-80GB", "are more than H100-SXM5-80GB has"),
        (
            "sglang_draft.log",
            SGLANG,
            "H200",
            "are more than all the 16,094,076,928 bytes of this model's weights",
        ),
        (
            "vllm_failed.log",
            VLLM,
            "H100-SXM5-80GB",
            "are fewer than the 16,094,076,928 bytes of this model's weights",
        ),
    ],
)
def test_a_log_of_another_model_is_refused(
    name: str, workload: Workload, gpu: str, says: str
) -> None:
    """Weights are no estimate: a start that loaded twice them, or half, loaded another model or
    another precision.
    """
    assert says in problems(read(sample(name), workload, gpu=gpu))


@pytest.mark.parametrize(
    ("name", "workload", "model"),
    [
        ("sglang_0_4.log", SGLANG, "llama-3.1-8b"),
        ("vllm_0_19.log", VLLM, "llama-3.1-8b"),
        ("vllm_failed.log", AWQ, "qwen2.5-vl-7b"),
    ],
)
def test_the_log_of_the_model_is_taken(name: str, workload: Workload, model: str) -> None:
    """What libraries took while weights were loaded, and how packed weights are grouped, makes no
    other model.
    """
    assert problems(read(sample(name), workload, model=model)) == ""


def test_a_log_that_names_another_model_is_refused() -> None:
    """By the parameters of what the catalogue knows under that name; a sister of the same shape is
    no other model.
    """
    named = b"meta-llama/Llama-3.1-8B-Instruct"
    data = sample("vllm_0_19.log")
    assert named in data

    assert "which has 70,553,706,496 parameters" in problems(
        read(data.replace(named, b"meta-llama/Llama-3.1-70B"), VLLM)
    )
    assert (
        problems(read(data.replace(named, b"deepseek-ai/DeepSeek-R1-Distill-Llama-8B"), VLLM)) == ""
    )


@pytest.mark.parametrize(
    ("gpus", "says"),
    [
        (1, "has 2 GPUs of job ml/tune-x7x2k, and the layout of the question has 1"),
        (2, ""),
        (4, ""),
    ],
)
def test_a_pod_of_more_gpus_is_refused(gpus: int, says: str) -> None:
    """Of fewer it may be one of several."""
    page = "".join(
        f'DCGM_FI_DEV_FB_USED{{UUID="GPU-{gpu}",namespace="ml",pod="tune-x7x2k"}} 30000\n'
        for gpu in range(2)
    )

    report = read(
        page.encode(),
        TRAINING,
        model="llama-3.2-1b",
        gpu="A100-SXM4-80GB",
        layout=Layout(data_parallel=gpus),
    )

    assert says in problems(report)
    assert bool(problems(report)) is bool(says)


@pytest.mark.parametrize(
    ("data", "gpus", "says"),
    [
        (
            SACCT % (8, b"0", 8, 8),
            1,
            "job 7, step 0 had 8 GPUs, and the layout of the question has 1",
        ),
        (SACCT % (8, b"0", 8, 8), 8, ""),
        (SACCT % (8, b"0", 1, 1), 1, ""),
        (SACCT % (16, b"batch", 1, 8), 16, ""),
        (SACCT % (16, b"batch", 1, 8), 8, "had 16 GPUs"),
    ],
)
def test_a_job_of_other_gpus_is_refused(data: bytes, gpus: int, says: str) -> None:
    """A step had what its row says, and the batch step, whose row is of one node, what the job's
    row says.
    """
    found = problems(
        read(
            data,
            TRAINING,
            model="llama-3.2-1b",
            gpu="A100-SXM4-80GB",
            layout=Layout(data_parallel=gpus),
        ),
    )

    assert says in found
    assert bool(found) == bool(says)


def test_a_file_with_nothing_of_the_question_cannot_be_stored() -> None:
    """Who stores it would believe that it was: the first reading that was left out says why."""
    data = SACCT % (1, b"0", 1, 1)
    report = read(data, TRAINING, model="llama-3.2-1b", gpu="A100-SXM4-80GB", match=Match(step="1"))

    assert report.items == ()
    with pytest.raises(ImportRefusedError, match="no reading of the file is of the question"):
        check_storable(report)
