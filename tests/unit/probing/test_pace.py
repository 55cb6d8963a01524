"""A GPU's plan has a run that waits for the host, where the question's own do not."""

from dataclasses import replace

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.units import GIB
from service.estimator.values.workload import Lora, Method, ServeWorkload, TrainWorkload, Workload
from service.jobs.host import Host
from service.probing.asking import AnalyticEstimates
from service.probing.pace import plan_pace
from service.probing.plan import ProbePlan, ProbeQuestion, get_target_point
from service.probing.planning import make_plan, to_planned

GPU = Host(
    available_bytes=79 * GIB,
    flops_per_second=7e14,
    state_bytes_per_second=2.4e12,
    reserves=True,
    num_steps=6,
)
ADAPTERS = TrainWorkload(
    sequence_length=1024,
    micro_batch_size=4,
    method=Method.LORA,
    lora=Lora(),
    precision=POLICIES["bf16"],
)
FULL = TrainWorkload(sequence_length=2048, micro_batch_size=2, precision=POLICIES["bf16"])


def make_question(
    workload: Workload, *, layout: Layout | None = None, deadline_s: float = 600.0
) -> ProbeQuestion:
    """Return a question about llama-3.2-1b."""
    return ProbeQuestion(
        architecture=load_architecture(resolve_model("llama-3.2-1b")),
        workload=workload,
        layout=layout or Layout(),
        full_depth=False,
        deadline_s=deadline_s,
    )


def plan(
    workload: Workload, *, host: Host = GPU, layout: Layout | None = None, deadline_s: float = 600.0
) -> ProbePlan:
    """Return the plan of a question about llama-3.2-1b."""
    question = make_question(workload, layout=layout, deadline_s=deadline_s)
    analytic = AnalyticEstimates(question)
    return make_plan(
        question, host, analytic.get_peak_function(host), analytic.get_host_share_function(host)
    )


@pytest.mark.parametrize("workload", [ADAPTERS, FULL])
def test_a_job_that_the_gpu_decides_is_paced_by_few_tokens(workload: Workload) -> None:
    """All of its layers with one short sequence, last and beside what the answer rests on."""
    planned = plan(workload)

    assert planned.pace is not None
    point = planned.pace.point
    assert (point.layers, point.micro_batch_size, point.sequence_length) == (
        planned.target.layers,
        1,
        128,
    )
    assert point not in planned.points
    assert not planned.extrapolated
    last = to_planned(planned, GPU).runs[-1]
    assert (last.sequence_length, last.why) == (128, planned.pace.why)


@pytest.mark.parametrize(
    "workload",
    [
        replace(ADAPTERS, micro_batch_size=1, sequence_length=128),
        ServeWorkload(num_sequences=4, prompt_tokens=1024, output_tokens=64),
    ],
)
def test_a_job_that_waits_for_its_host_needs_no_other_run(workload: Workload) -> None:
    """Its own time tells how fast launches are."""
    assert plan(workload).pace is None


def test_only_a_gpu_with_time_to_spare_is_paced() -> None:
    """A processor has no launches, ranks alone send nothing, and a hurried probe does its work."""
    processor = replace(GPU, reserves=False)
    sharded = Layout(data_parallel=8, zero_stage=3, sharding=Sharding.FSDP2)

    assert plan(ADAPTERS, host=processor).pace is None
    assert plan(ADAPTERS, layout=sharded).pace is None
    assert plan(FULL, deadline_s=1.7).pace is None


@pytest.mark.parametrize(
    ("own", "few", "is_paced"),
    [(0.5, 0.9, True), (0.5, 0.5, False), (0.7, 1.0, False), (0.1, 0.3, False), (0.1, 0.4, True)],
)
def test_the_run_of_few_tokens_tells_more_of_the_host(
    own: float, few: float, *, is_paced: bool
) -> None:
    """There is none where the job's own time tells enough, or where none tells more."""
    question = make_question(FULL)
    target = get_target_point(question)
    run = plan_pace(
        target,
        question,
        GPU,
        lambda point: own if point == target else few,
        shrinks=True,
        within_s=60.0,
    )

    assert (run is not None) is is_paced
