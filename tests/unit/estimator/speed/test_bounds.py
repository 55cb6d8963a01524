"""Which side decides a step's time."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.speed.bounds import describe_bound
from service.estimator.speed.throughput import estimate_throughput
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Bound, Throughput
from service.estimator.values.workload import Engine, ServeWorkload, TrainWorkload, Workload

H100 = resolve_gpu("H100-SXM5-80GB").to_device()
SMALL = TrainWorkload(sequence_length=512, precision=POLICIES["bf16"])
CHAT = ServeWorkload(num_sequences=4, prompt_tokens=512, output_tokens=64)
PLANS = PlanCache()


def time_job(workload: Workload, model: str = "qwen3-0.6b") -> Throughput:
    """Return the throughput of a model on an H100."""
    architecture = load_architecture(resolve_model(model))
    answer = estimate(architecture, workload, layout=Layout(), device=H100, plans=PLANS)
    throughput = estimate_throughput(architecture, workload, Layout(), H100, answer, PLANS.works)
    assert throughput is not None
    return throughput


@pytest.mark.parametrize(
    ("workload", "bound", "help_wanted"),
    [
        (SMALL, Bound.HOST, "torch.compile launches fewer"),
        (replace(SMALL, micro_batch_size=32), Bound.GPU, "the GPU decides"),
        (CHAT, Bound.HOST, "an engine with CUDA graphs launches one"),
        (replace(CHAT, engine=Engine.VLLM), Bound.GPU, "replayed as one CUDA graph"),
        (
            replace(CHAT, engine=Engine.VLLM, enforce_eager=True),
            Bound.HOST,
            "without enforce_eager",
        ),
    ],
)
def test_small_jobs_wait_for_the_host(workload: Workload, bound: Bound, help_wanted: str) -> None:
    """The sentence names the side, and says what would help where that is the host."""
    throughput = time_job(workload)

    sentence = describe_bound(throughput, workload)

    assert throughput.bound is bound
    assert help_wanted in sentence


@pytest.mark.parametrize("engine", [Engine.TRANSFORMERS, Engine.VLLM, Engine.SGLANG])
def test_what_generates_nothing_is_timed_by_its_prompts(engine: Engine) -> None:
    """A step of an embedding model is one pass over all prompts; no token is decoded."""
    workload = ServeWorkload(num_sequences=64, prompt_tokens=512, output_tokens=0, engine=engine)

    throughput = time_job(workload, "qwen3-embedding-0.6b")

    assert throughput.step_time_s == throughput.prefill_time_s
    assert throughput.tokens_per_second == 64 * 512 / throughput.step_time_s
    assert 0.1 < throughput.mfu < 0.8


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(25.73, "25.7 s a step"), (0.9997, "1.0 s a step"), (0.99, "990 ms a step")],
)
def test_long_steps_are_told_in_seconds(seconds: float, shown: str) -> None:
    """No time is written with an exponent."""
    timed = replace(time_job(SMALL), gpu_time_s=seconds, host_time_s=0.4)

    assert shown in describe_bound(timed, SMALL)


def test_a_larger_batch_costs_a_slow_host_nothing() -> None:
    """While the host decides, a step takes as long with twice the tokens."""
    one, two = (time_job(replace(SMALL, micro_batch_size=size)) for size in (1, 2))

    assert two.host_time_s == one.host_time_s
    assert two.step_time_s < 1.1 * one.step_time_s
    assert two.gpu_time_s > 1.2 * one.gpu_time_s
