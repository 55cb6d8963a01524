"""How long a step takes: what makes it slower, and what nobody can tell."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_config, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.speed.rates import get_rates
from service.estimator.speed.throughput import WorkCache, estimate_throughput, find_untimed_reason
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Throughput
from service.estimator.values.workload import (
    Checkpointing,
    Framework,
    Lora,
    Method,
    Offload,
    OffloadTarget,
    ServeWorkload,
    TrainWorkload,
    Workload,
)

A100 = resolve_gpu("A100-SXM4-80GB").to_device()
TRAINING = TrainWorkload(sequence_length=2048, precision=POLICIES["bf16"])
SHARDED = Layout(data_parallel=16, zero_stage=3, sharding=Sharding.FSDP2)
CACHE = PlanCache()
WORKS = WorkCache()


def a_model(name: str = "llama-2-7b") -> Architecture:
    """Return a model of the catalogue."""
    return architecture_from_config(load_config(resolve_model(name)))


def speed(
    workload: Workload,
    layout: Layout | None = None,
    device: Device = A100,
    model: str = "llama-2-7b",
) -> Throughput:
    """Return the throughput of a model that has one."""
    layout = layout or Layout()
    architecture = a_model(model)
    answer = estimate(architecture, workload, layout=layout, device=device, plans=CACHE)
    found = estimate_throughput(architecture, workload, layout, device, answer, WORKS)
    assert found is not None
    return found


def test_a_step_takes_as_long_as_its_tokens_at_their_rate() -> None:
    """Tokens per second, step time and share of the GPU's peak are one figure in three forms."""
    found = speed(TRAINING, SHARDED)

    assert found.tokens_per_second * found.step_time_s == pytest.approx(16 * 2048)
    assert found.tokens_per_second_per_gpu * 16 == pytest.approx(found.tokens_per_second)
    assert 0.2 < found.mfu < 0.7


@pytest.mark.parametrize(
    ("slower", "faster"),
    [
        (replace(TRAINING, activation_checkpointing=Checkpointing.FULL), TRAINING),
        (TRAINING, replace(TRAINING, compile=True)),
        (TRAINING, replace(TRAINING, method=Method.LORA, lora=Lora(targets=("q_proj", "v_proj")))),
        (replace(TRAINING, precision=POLICIES["fp32"]), TRAINING),
        (
            replace(TRAINING, activation_checkpointing=Checkpointing.FULL),
            replace(TRAINING, micro_batch_size=2),
        ),
    ],
)
def test_less_work_takes_less_time(slower: TrainWorkload, faster: TrainWorkload) -> None:
    """What is multiplied or moved less is faster for each token."""
    model, layout = a_model(), Layout()
    answer = estimate(model, TRAINING, layout=layout, device=A100, plans=CACHE)

    times = [
        estimate_throughput(model, workload, layout, A100, answer, WORKS)
        for workload in (slower, faster)
    ]

    assert times[0] is not None
    assert times[1] is not None
    assert times[0].tokens_per_second < times[1].tokens_per_second


def test_an_optimizer_moves_what_its_operations_read_and_write() -> None:
    """Beyond plain SGD, momentum touches five tensors of the weights' size, AdamW's lists 17 and
    its fused kernel four.
    """
    adamw, fused, momentum, plain = (
        speed(replace(TRAINING, optimizer=name)).step_time_s
        for name in ("adamw", "adamw_fused", "sgd_momentum", "sgd")
    )

    assert (adamw - plain) / (momentum - plain) == pytest.approx(17 / 5)
    assert (fused - plain) / (momentum - plain) == pytest.approx(4 / 5)


def test_a_slow_network_is_waited_for() -> None:
    """ZeRO-3 over a network of a tenth is slower, and one node does not care."""
    slow = 5 * 10**9

    assert (
        speed(TRAINING, replace(SHARDED, network_bytes_per_second=slow)).step_time_s
        > speed(TRAINING, SHARDED).step_time_s
    )
    alone = replace(SHARDED, data_parallel=8)
    assert speed(TRAINING, replace(alone, network_bytes_per_second=slow)) == speed(TRAINING, alone)


@pytest.mark.parametrize("framework", [Framework.MEGATRON, Framework.TORCHTITAN])
def test_keys_and_values_of_other_ranks_are_waited_for(framework: Framework) -> None:
    """Ranks that split sequences are slower than as many that split batches, and wait for a slow
    network between them.
    """
    megatron = framework is Framework.MEGATRON
    kind = {
        "sharding": Sharding.MEGATRON if megatron else Sharding.FSDP2,
        "zero_stage": 1 if megatron else 3,
    }
    batches = TrainWorkload(
        sequence_length=4096, precision=POLICIES["bf16_mixed"], framework=framework
    )
    halves = replace(batches, micro_batch_size=2)
    apart, ring = Layout(data_parallel=2, **kind), Layout(context_parallel=2, **kind)  # type: ignore[arg-type]  # by name
    slow = replace(ring, gpus_per_node=1, network_bytes_per_second=10**9)

    assert speed(halves, ring).tokens_per_second < speed(batches, apart).tokens_per_second
    assert speed(halves, slow).tokens_per_second < speed(halves, ring).tokens_per_second / 1.2


def test_deepspeed_waits_where_fsdp_prefetches() -> None:
    """DeepSpeed's prefetch bucket is smaller than a layer, so that gathers over a network are not
    hidden.
    """
    deepspeed = replace(SHARDED, sharding=Sharding.DEEPSPEED)

    assert speed(TRAINING, deepspeed).step_time_s > speed(TRAINING, SHARDED).step_time_s


def test_hours_follow_from_the_tokens_of_the_run() -> None:
    """A run of so many tokens takes its tokens over the rate."""
    found = speed(replace(TRAINING, num_tokens=10**9))

    assert found.hours_for_tokens == pytest.approx(10**9 / found.tokens_per_second / 3600)
    assert speed(TRAINING).hours_for_tokens is None


def test_decoding_reads_all_weights_for_each_token() -> None:
    """One sequence of a 70B on GPUs with memory enough decodes no faster than its weights can be
    read.
    """
    found = speed(
        ServeWorkload(num_sequences=1, prompt_tokens=128, output_tokens=8), model="llama-2-70b"
    )

    assert found.step_time_s >= a_model("llama-2-70b").counts.total * 2 / 2.039e12
    assert found.prefill_time_s is not None


def test_small_models_wait_for_the_host() -> None:
    """A model whose kernels are tiny decodes at the pace of the process that launches them,
    whatever the batch.
    """
    one, four = (
        speed(
            ServeWorkload(num_sequences=n, prompt_tokens=64, output_tokens=8), model="qwen2-0.5b"
        ).step_time_s
        for n in (1, 4)
    )

    assert one == pytest.approx(four)


def test_a_gpu_of_unknown_rates_has_no_time() -> None:
    """A GPU that was described by its memory alone is not timed."""
    device = Device(name="custom", capacity_bytes=2**37, usable_bytes=2**37)
    answer = estimate(a_model(), TRAINING, layout=Layout(), device=device, plans=CACHE)

    assert estimate_throughput(a_model(), TRAINING, Layout(), device, answer, WORKS) is None


@pytest.mark.parametrize("sharding", [Sharding.FSDP2, Sharding.DEEPSPEED])
def test_more_tokens_never_take_less_time(sharding: Sharding) -> None:
    """A longer sequence is never a faster step, whatever waits for whom."""
    layout = Layout(data_parallel=8, zero_stage=3, sharding=sharding)
    lengths = (1, 8, 64, 256, 1024, 4096)

    times = [
        speed(replace(TRAINING, sequence_length=length), layout).step_time_s for length in lengths
    ]

    assert times == sorted(times)


@pytest.mark.parametrize(
    "offload",
    [
        Offload(optimizer=OffloadTarget.CPU),
        Offload(optimizer=OffloadTarget.CPU, parameters=OffloadTarget.CPU),
    ],
)
def test_what_lies_on_the_host_is_waited_for(offload: Offload) -> None:
    """States and weights beyond PCIe make a step slower."""
    layout = Layout(data_parallel=8, zero_stage=3, sharding=Sharding.DEEPSPEED)
    workload = replace(TRAINING, precision=POLICIES["bf16_mixed"])

    assert (
        speed(replace(workload, offload=offload), layout).step_time_s
        > speed(workload, layout).step_time_s
    )


def test_beams_share_the_rate() -> None:
    """Four beams are four rows of each step, and one of them is kept."""
    one = ServeWorkload(num_sequences=8, prompt_tokens=512, output_tokens=64)

    beams, rows = speed(replace(one, num_beams=4)), speed(replace(one, num_sequences=32))

    assert beams.tokens_per_second == pytest.approx(rows.tokens_per_second / 4, rel=0.05)


@pytest.mark.parametrize("name", ["mamba-codestral-7b", "jamba-v0.1", "mamba-2.8b"])
def test_models_with_states_are_timed(name: str) -> None:
    """Chunked scans are counted for the length that is asked."""
    assert speed(TRAINING, model=name).step_time_s > 0


@pytest.mark.parametrize("method", [Method.FULL, Method.LORA])
def test_no_utilisation_exceeds_what_products_reach(method: Method) -> None:
    """What is needed over the peak is never more than the share of the peak that products reach."""
    workload = replace(
        TRAINING,
        method=method,
        lora=Lora() if method is Method.LORA else None,
        micro_batch_size=4,
        compile=method is Method.LORA,
    )
    model = a_model("starcoder2-3b")
    answer = estimate(model, TRAINING, layout=Layout(), device=A100, plans=CACHE)

    found = estimate_throughput(model, workload, Layout(), A100, answer, WORKS)

    assert found is not None
    assert found.mfu <= get_rates(A100.name).products


def test_what_is_not_timed_has_a_reason() -> None:
    """A GPU without rates, and a model that is more than a decoder."""
    custom = Device(name="custom", capacity_bytes=2**37, usable_bytes=2**37)
    step = TrainWorkload(sequence_length=128)
    replica = ServeWorkload(num_sequences=1, prompt_tokens=8)

    assert "custom" in (find_untimed_reason(a_model(), step, custom) or "")
    assert "t5" in (find_untimed_reason(a_model("t5-small"), replica, A100) or "")
    assert "clip" in (find_untimed_reason(a_model("clip-vit-base-patch32"), step, A100) or "")
    for model in (a_model(), a_model("t5-small")):
        assert find_untimed_reason(model, step, A100) is None
