"""The verdict holds device bytes against what a process can allocate."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimator.values.workload import Engine, ServeWorkload
from service.planner.fit.verdict import Verdict, judge, missing_bytes
from tests.unit.planner.builders import ONE_GPU, a_device, an_a100_subject, an_estimate

BYTES = st.integers(min_value=1, max_value=2**50)


@pytest.mark.parametrize(
    ("point", "high", "verdict"),
    [
        (99, 100, Verdict.FITS),
        (100, 100, Verdict.FITS),
        (99, 101, Verdict.TIGHT),
        (100, 101, Verdict.TIGHT),
        (101, 101, Verdict.DOES_NOT_FIT),
    ],
)
def test_verdict_at_its_borders(point: int, high: int, verdict: Verdict) -> None:
    """Exactly full still fits; what fits only at the point is tight."""
    assert judge(an_estimate(point, high=high), a_device(100)).verdict is verdict


@given(point=BYTES, above=BYTES, usable=BYTES)
def test_headroom_and_deficit_are_never_negative_and_never_both(
    point: int, above: int, usable: int
) -> None:
    """One of the two is zero, and their difference is what is left."""
    judged = judge(an_estimate(point, high=point + above), a_device(usable))

    assert judged.headroom_bytes >= 0
    assert judged.deficit_bytes >= 0
    assert judged.headroom_bytes - judged.deficit_bytes == usable - point
    assert (judged.verdict is Verdict.DOES_NOT_FIT) == (judged.deficit_bytes > 0)


@pytest.mark.parametrize(
    ("engine", "fraction"),
    [(Engine.VLLM, 1.0), (Engine.SGLANG, 0.99), (Engine.TENSORRT_LLM, 0.9), (Engine.VLLM, 0.9)],
)
def test_a_budget_that_leaves_the_device_too_small_does_not_fit(
    engine: Engine, fraction: float
) -> None:
    """Graphs and contexts stand beside the pool: what fits has room for them as well, up to the
    interval's upper end.
    """
    subject = an_a100_subject("qwen2.5-0.5b")
    workload = ServeWorkload(
        num_sequences=1, prompt_tokens=16, engine=engine, gpu_memory_fraction=fraction
    )
    answer = subject.answer(workload, ONE_GPU)

    judged = judge(answer, subject.device)

    assert (judged.verdict is Verdict.FITS) == (
        answer.device_interval.high <= subject.device.usable_bytes
    )
    assert (judged.verdict is Verdict.FITS) == (fraction == 0.9)
    assert any("lower gpu_memory_fraction" in warning for warning in answer.warnings) == (
        judged.deficit_bytes > 0
    )


def test_a_pool_that_lacks_room_says_so_and_leaves_the_device_its_headroom() -> None:
    """Headroom is what the device has left; what the budget lacks is told apart from it, with the
    reason.
    """
    subject = an_a100_subject("llama-2-7b")
    workload = ServeWorkload(num_sequences=4096, prompt_tokens=2048, engine=Engine.VLLM)
    answer = subject.answer(workload, ONE_GPU)

    judged = judge(answer, subject.device)

    assert judged.verdict is Verdict.DOES_NOT_FIT
    assert judged.headroom_bytes == subject.device.usable_bytes - answer.device_bytes > 0
    assert answer.serving is not None
    assert (
        missing_bytes(answer, subject.device, confident=False)
        == answer.serving.required_bytes - answer.serving.budget_bytes
    )
    assert any("more than the engine's budget" in warning for warning in answer.warnings)


def test_what_the_host_keeps_counts_where_memory_is_one() -> None:
    """A DGX Spark has 128 GB for both: offloading moves nothing out of it."""
    apart, shared = (
        replace(a_device(100), has_unified_memory=is_shared) for is_shared in (False, True)
    )
    estimate = replace(an_estimate(60, high=60), host_bytes_per_node=50)

    assert judge(estimate, apart).verdict is Verdict.FITS
    judged = judge(estimate, shared)
    assert judged.verdict is Verdict.DOES_NOT_FIT
    assert judged.deficit_bytes == 10 == missing_bytes(estimate, shared, confident=False)
