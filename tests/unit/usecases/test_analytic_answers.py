"""What a measurement is compared with."""

from service.catalog.gpus import resolve_gpu
from service.estimator.cache import PlanCache
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Attention, TrainWorkload
from service.jobs.contract import MeasureRequest, ModelSource, ProbeDevice, make_task
from service.planner.fit.evaluator import make_evaluator
from service.usecases.learning.analytic_answers import compute_analytic_answer
from tests.tiny_models import tiny_config

T4 = resolve_gpu("T4").to_device()
WORKLOAD = TrainWorkload(sequence_length=64, precision=POLICIES["bf16"])


def test_a_measurement_is_compared_with_what_a_fit_there_says() -> None:
    """On a GPU without flash attention that is another kernel than elsewhere: a difference between
    the two answers would count as measured.
    """
    architecture = architecture_from_config(tiny_config("llama"))
    request = MeasureRequest(
        model=ModelSource(architecture=architecture.describe(), hf_config=tiny_config("llama")),
        task=make_task(WORKLOAD),
        layout=Layout(),
        device=ProbeDevice.CUDA,
        gpu="T4",
    )

    compared = compute_analytic_answer(request, PlanCache())

    fit = make_evaluator(architecture, T4)
    assert compared is not None
    assert compared.estimate.instants == fit.answer(WORKLOAD, Layout()).instants
    by_math = TrainWorkload(
        sequence_length=64, precision=POLICIES["bf16"], attention=Attention.MATH
    )
    assert compared.estimate.instants == fit.answer(by_math, Layout()).instants
