"""How many GPUs one serving replica is spread over, and what an engine's budget lacks."""

from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.rules.violations import find_violation
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Engine, ServeWorkload
from service.planner.fit.evaluator import make_evaluator
from service.planner.fit.verdict import Verdict
from service.planner.plans.how_many import find_fewest_gpus
from service.planner.plans.offered import Plan
from service.planner.search.search_space import Limits, Question


def plan(
    model: str,
    *,
    layout: Layout | None = None,
    fixed: frozenset[str] = frozenset(),
    limits: Limits | None = None,
    **words: Any,  # noqa: ANN401 - each word has its own type
) -> Plan:
    """Ask how many A100s of 80 GB a replica takes."""
    asked: dict[str, Any] = {
        "num_sequences": 8,
        "prompt_tokens": 2048,
        "output_tokens": 256,
        "max_model_len": 4096,
    }
    workload = ServeWorkload(**{"engine": Engine.VLLM} | asked | words)
    subject = make_evaluator(
        load_architecture(resolve_model(model)), resolve_gpu("A100-SXM4-80GB").to_device()
    )
    question = Question(
        workload=workload,
        layout=layout or Layout(),
        fixed=fixed,
        limits=limits or Limits(max_gpus=64),
    )
    return find_fewest_gpus(subject, question)


@pytest.mark.parametrize(
    ("model", "num_gpus"), [("llama-2-7b", 1), ("llama-2-70b", 2), ("bloom-176b", 7)]
)
def test_a_replica_is_split_over_as_few_gpus_as_hold_it(model: str, num_gpus: int) -> None:
    """70 billion 16-bit weights are 129 GiB: two ranks of 80 GB hold them, and eight sequences
    beside them.
    """
    found = plan(model, fixed=frozenset({"pipeline_parallel"}))

    assert found.num_gpus == num_gpus
    assert found.candidates[0].layout.tensor_parallel == num_gpus
    assert all(one.num_gpus < num_gpus for one in found.rejected)


def test_what_the_request_fixes_is_kept() -> None:
    """On one rank a replica that is too large has no answer, and the reason names the budget."""
    found = plan("llama-2-70b", fixed=frozenset({"tensor_parallel", "pipeline_parallel"}))

    assert found.num_gpus is None
    assert found.reason is not None
    assert "budget" in found.reason


def test_replicas_multiply_what_one_takes() -> None:
    """Two replicas take twice the GPUs of one."""
    found = plan("llama-2-70b", layout=Layout(data_parallel=2))

    assert found.num_gpus == 2 * (plan("llama-2-70b").num_gpus or 0)


def test_a_node_bounds_the_split() -> None:
    """Tensor-parallel ranks stay in one node; a pipeline may cross nodes."""
    found = plan(
        "bloom-176b", layout=Layout(gpus_per_node=4), fixed=frozenset({"pipeline_parallel"})
    )
    piped = plan("bloom-176b", layout=Layout(gpus_per_node=4))

    assert found.num_gpus is None
    assert max(one.num_gpus for one in found.rejected) == 4
    assert piped.num_gpus == 8
    assert all(one.layout.tensor_parallel <= 4 for one in piped.candidates)


def test_llama_cpp_splits_rows_over_the_gpus_of_one_host() -> None:
    """A model that one GPU does not hold is planned on two, by rows of its matrices."""
    found = plan("llama-2-70b", engine=Engine.LLAMA_CPP)

    assert found.num_gpus == 2
    assert found.candidates[0].layout.tensor_parallel == 2


def test_a_plan_fits() -> None:
    """What is found is judged by the engine's budget."""
    found = plan("llama-2-70b")

    assert found.candidates[0].judgement.verdict is Verdict.FITS


def test_a_throughput_is_met_by_as_few_replicas_as_make_it() -> None:
    """One replica makes less than is asked; the answer says how much, and the plan keeps the
    limit.
    """
    one = plan("llama-2-7b", limits=Limits(max_gpus=8)).candidates[0]
    assert one.throughput is not None
    wanted = one.throughput.tokens_per_second * 2.5
    found = plan("llama-2-7b", limits=Limits(max_gpus=8, min_tokens_per_second=wanted))

    assert found.num_gpus == 3
    assert [candidate.layout.data_parallel for candidate in found.candidates][:1] == [3]
    assert "fewer than" in found.rejected[0].reason


def test_so_many_sequences_take_so_many_replicas() -> None:
    """Each serves what the request says; a number of replicas that is pinned is kept, and refused
    where it is too small.
    """
    found = plan("llama-2-7b", limits=Limits(max_gpus=8, min_num_sequences=17))

    assert (found.num_gpus, found.candidates[0].layout.data_parallel) == (3, 3)
    with pytest.raises(InvalidInputError, match="takes 3 replicas of 8"):
        plan(
            "llama-2-7b",
            layout=Layout(data_parallel=2),
            fixed=frozenset({"data_parallel"}),
            limits=Limits(max_gpus=8, min_num_sequences=17),
        )


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG, Engine.TENSORRT_LLM])
def test_replicas_that_share_their_experts_take_fewer_gpus(engine: Engine) -> None:
    """Each holds its own attention and cache, and a part of the experts: fewer GPUs hold as many
    sequences.
    """
    limits = Limits(max_gpus=64, min_num_sequences=128)
    spread = plan("mixtral-8x7b", limits=limits, engine=engine, num_sequences=32)
    alone = plan(
        "mixtral-8x7b",
        limits=limits,
        engine=engine,
        num_sequences=32,
        fixed=frozenset({"expert_parallel"}),
    )
    layout = spread.candidates[0].layout

    assert (spread.num_gpus or 0) < (alone.num_gpus or 0)
    assert layout.expert_parallel > 1
    each = layout.expert_tensor_parallel or layout.tensor_parallel
    assert layout.expert_parallel * each == layout.tensor_parallel * layout.data_parallel
    assert (
        find_violation(
            load_architecture(resolve_model("mixtral-8x7b")), spread.candidates[0].workload, layout
        )
        is None
    )


def test_experts_of_one_replica_stay_where_they_are() -> None:
    """Spreading them over its own ranks saves nothing: the simpler layout comes first."""
    assert plan("mixtral-8x7b").candidates[0].layout.expert_parallel == 1


@pytest.mark.parametrize("num_sequences", [150, 214])
def test_a_replica_that_a_replay_lets_fit_takes_one_gpu(num_sequences: int) -> None:
    """The search shows the replayed answer, where the ratio's upper end alone finds no room."""
    workload = ServeWorkload(num_sequences=num_sequences, prompt_tokens=1024, output_tokens=33)
    subject = make_evaluator(
        load_architecture(resolve_model("llama-3-8b")),
        resolve_gpu("H100-SXM5-80GB").to_device(),
    )

    best = find_fewest_gpus(subject, Question(workload=workload, layout=Layout())).candidates[0]

    assert best.num_gpus == 1
    assert best.estimate == subject.answer(workload, Layout())
    assert best.estimate.device_bytes <= subject.device.usable_bytes
