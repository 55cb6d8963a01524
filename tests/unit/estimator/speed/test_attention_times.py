"""Times of attention without a fused kernel, in prefill, decode and the host's launches."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.speed.attention import (
    count_head_copies,
    repeats_heads,
    time_attention,
)
from service.estimator.speed.machine import Machine
from service.estimator.speed.work import ForwardWork, count_forward_work
from service.estimator.values.dtypes import DType
from service.estimator.values.generation import Client
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Attention, Engine, ServeWorkload
from service.planner.fit.evaluator import make_evaluator

H100 = resolve_gpu("H100-SXM5-80GB").to_device()
FALCON = load_architecture(resolve_model("falcon-7b"))
LLAMA = load_architecture(resolve_model("llama-3.2-1b"))
SERVED = ServeWorkload(
    engine=Engine.TRANSFORMERS, num_sequences=8, prompt_tokens=1024, output_tokens=32
)


def count(attention: Attention = Attention.SDPA) -> ForwardWork:
    """Return the work of Falcon's forward in bf16."""
    return count_forward_work(FALCON, dtype=DType.BF16, attention=attention)


def make_machine() -> Machine:
    """Return an H100 that multiplies in bf16."""
    machine = Machine.from_device(H100, Layout(), DType.BF16)
    assert machine is not None
    return machine


def test_one_shared_head_is_left_to_the_math_kernel() -> None:
    """Scores are in fp32, and heads are split and rotated as before a fused kernel."""
    work = count()

    assert not work.has_fused_attention
    assert work.scores_dtype is DType.FP32
    assert work.forward.attentions == FALCON.num_hidden_layers


def test_the_math_kernel_multiplies_whole_scores_in_fp32() -> None:
    """Twice what a causal mask leaves, without tensor cores: not at the rate of a fused kernel."""
    machine, work = make_machine(), count()

    forward, backward = time_attention(work, machine, 1e12)

    assert forward == pytest.approx(2e12 / machine.get_rate(DType.FP32))
    assert backward == 2 * forward
    assert forward > 10 * time_attention(replace(work, has_fused_attention=True), machine, 1e12)[0]


def test_a_decoded_token_copies_the_cache_for_every_head() -> None:
    """71 heads of fp32, written and read, for each of the cache's bf16."""
    copied = count_head_copies(FALCON, count(), 1000.0, DType.BF16, repeated=False)

    assert copied == 1000 / 2 * 71 * 4 * 2
    fused = count_forward_work(LLAMA, dtype=DType.BF16, attention=Attention.SDPA)
    assert count_head_copies(LLAMA, fused, 1000.0, DType.BF16, repeated=False) == 0.0


def test_falcon_waits_for_its_copies_under_transformers_alone() -> None:
    """An engine has a kernel of its own for one shared head."""

    def time_decode(workload: ServeWorkload) -> float:
        evaluator = make_evaluator(FALCON, H100)
        answer = evaluator.answer(workload, Layout())
        throughput = evaluator.get_throughput(workload, Layout(), answer)
        assert throughput is not None
        return throughput.gpu_time_s

    own, engine = map(time_decode, (SERVED, replace(SERVED, engine=Engine.VLLM)))

    assert own > engine + 0.005


def test_generated_tokens_copy_the_weights_of_their_experts() -> None:
    """``generate`` gathers the experts of each row, so that its GPU does more than a plain loop's;
    beams do not.
    """
    evaluator = make_evaluator(load_architecture(resolve_model("olmoe-1b-7b")), H100)

    def time_decode(workload: ServeWorkload) -> float:
        answer = evaluator.answer(workload, Layout())
        throughput = evaluator.get_throughput(workload, Layout(), answer)
        assert throughput is not None
        return throughput.gpu_time_s

    looped = replace(SERVED, client=Client.LOOP)
    beamed = replace(SERVED, num_sequences=4, num_beams=2)
    plain, copied, beams = map(time_decode, (looped, SERVED, beamed))

    # 16 layers, eight experts of 12.6 MB for each of eight rows, at less than 3 TB/s.
    assert copied - plain > 2 * 16 * 64 * 12.58e6 / 3e12
    assert beams < copied


@pytest.mark.parametrize(
    ("model", "version", "attention", "repeats"),
    [
        ("qwen2.5-7b", "4.46.0", Attention.FLASH, True),
        ("qwen2.5-7b", "4.48.0", Attention.FLASH, False),
        ("qwen2.5-7b", "4.46.0", Attention.SDPA, False),
        ("qwen2.5-7b", None, Attention.FLASH, False),
        ("llama-3.2-1b", "4.46.0", Attention.FLASH, False),
    ],
)
def test_old_releases_of_some_families_repeat_heads_before_flash_attention(
    model: str,
    version: str | None,
    attention: Attention,
    repeats: bool,  # noqa: FBT001 - a row of the table
) -> None:
    """Qwen2's class did until 4.48, llama's never."""
    workload = replace(SERVED, engine_version=version, attention=attention)

    assert repeats_heads(load_architecture(resolve_model(model)), workload) is repeats


def test_repeated_heads_are_written_and_read_in_the_dtype_of_the_cache() -> None:
    """Seven query heads for each of Qwen2.5 7B's keys and values."""
    model = load_architecture(resolve_model("qwen2.5-7b"))
    fused = count_forward_work(model, dtype=DType.BF16, attention=Attention.FLASH)

    assert count_head_copies(model, fused, 1000.0, DType.BF16, repeated=True) == 2 * 7 * 1000
