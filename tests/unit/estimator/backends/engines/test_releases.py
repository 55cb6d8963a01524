"""What changed between releases of engines: defaults and the terms of their memory."""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.backends.sglang.defaults import get_chunk_tokens, get_memory_fraction
from service.estimator.backends.vllm.overheads import count_captured_sizes
from service.estimator.backends.vllm.release import VllmRelease, get_block_tokens
from service.estimator.backends.vllm.runners import count_sampler_bytes, runs_second_runner
from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.engine_versions import Version, parse_version
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.speculative import DraftHead, Speculative
from service.estimator.values.units import MIB
from service.estimator.values.workload import Engine, Quantization, ServeWorkload
from tests.unit.estimator.backends.test_vllm import LLAMA_8B


def _serve(version: str | None = None, *, gpu: str = "H100-SXM5-80GB", **words: Any) -> Estimate:  # noqa: ANN401 - each word has its own type
    asked: dict[str, Any] = {"num_sequences": 1, "prompt_tokens": 1024, "max_model_len": 8192}
    workload = ServeWorkload(**({"engine": Engine.VLLM, "engine_version": version} | asked | words))
    return estimate(
        architecture_from_config(LLAMA_8B),
        workload,
        layout=Layout(),
        device=resolve_gpu(gpu).to_device(),
    )


def _size(answer: Estimate, name: str) -> int:
    return sum(component.bytes for component in answer.components if component.name == name)


@pytest.mark.parametrize(
    ("version", "fraction"), [("0.19.1", 0.9), ("0.20.0", 0.92), ("0.33.0", 0.92)]
)
def test_the_default_fraction_follows_the_release(version: str, fraction: float) -> None:
    """``gpu_memory_utilization`` is 0.92 since 0.20.0."""
    answer, usable = _serve(version), resolve_gpu("H100-SXM5-80GB").to_device().usable_bytes

    assert answer.serving is not None
    assert answer.serving.budget_bytes == int(usable * fraction)


def test_graphs_are_inside_of_the_budget_since_0_20() -> None:
    """They were beside the pool in 0.19, and are taken off it since."""
    answers = [_serve(version, gpu_memory_fraction=0.9) for version in ("0.19.0", "0.20.0")]
    before, after = (answer.serving for answer in answers)

    assert before is not None
    assert after is not None
    taken = (before.kv_pool_bytes or 0) - (after.kv_pool_bytes or 0)
    assert taken == pytest.approx(_size(answers[0], "cuda_graphs"), abs=2 * MIB)
    assert _size(answers[0], "cuda_graphs") == _size(answers[1], "cuda_graphs")


def test_the_second_runner_counts_every_token_of_every_sequence() -> None:
    """1024 sequences of 128,256 tokens: 4 bytes each, two bits, and lists (0.33.0,
    ``sample/penalties.py``: "can be very large").
    """
    answer = _serve("0.33.0")

    assert _size(_serve("0.22.0"), "sampler_state") == 0
    assert _size(answer, "sampler_state") == count_sampler_bytes(128256, 1024)
    assert count_sampler_bytes(128256, 1024) == 1024 * 4 * (128256 + 2 * 4008 + 4481)


@pytest.mark.parametrize(
    ("name", "words", "first"),
    [
        ("qwen3-0.6b", {}, "0.22.0"),
        ("qwen3-0.6b", {"quantization": Quantization.FP8}, "0.24.0"),
        ("llama-3.1-8b", {}, "0.23.0"),
        ("qwen2.5-7b", {}, "0.25.0"),
        ("olmoe-1b-7b", {}, "0.29.0"),
    ],
)
def test_the_second_runner_came_family_by_family(
    name: str, words: dict[str, Any], first: str
) -> None:
    """``DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES`` named a few, then all dense models, then all."""
    model = load_architecture(resolve_model(name))
    workload = ServeWorkload(num_sequences=1, prompt_tokens=1, engine=Engine.VLLM, **words)
    since = parse_version(first)

    assert runs_second_runner(model, workload, since)
    assert not runs_second_runner(model, workload, Version(0, since.minor - 1, 9))


def test_the_log_counts_requests_since_0_21() -> None:
    """Tokens are those of sequences of the longest length: with 8,200 of them a block of 16 is
    half empty.
    """
    answers = [
        _serve(version, max_model_len=8200, gpu_memory_fraction=0.9)
        for version in ("0.20.0", "0.21.0")
    ]
    blocks, requests = (answer.serving for answer in answers)

    assert blocks is not None
    assert requests is not None
    assert (blocks.kv_pool_tokens or 0) % 16 == 0
    assert requests.kv_pool_tokens == int((requests.max_concurrency or 0) * 8200)


@pytest.mark.parametrize(
    ("version", "gpu", "tokens"),
    [
        ("0.27.0", "B200-SXM6-180GB", 8192),
        ("0.28.0", "B200-SXM6-180GB", 16384),
        ("0.33.0", "H200-SXM5-141GB", 8192),
        ("0.33.0", "A100-SXM4-80GB", 2048),
    ],
)
def test_a_step_has_more_tokens_on_the_largest_gpus(version: str, gpu: str, tokens: int) -> None:
    """GPUs of 160 GiB and more profile 16,384 tokens since 0.28.0, A100 2,048 ever."""
    device = resolve_gpu(gpu).to_device()

    assert VllmRelease(version=parse_version(version)).get_batched_tokens(device, 8192, 1024) == (
        tokens
    )


def test_a_step_has_no_more_tokens_than_its_sequences() -> None:
    """One sequence of 4,096 tokens is what a server of one sequence profiles."""
    device, release = resolve_gpu("H100-SXM5-80GB").to_device(), VllmRelease(version=Version(0, 33))

    assert release.get_batched_tokens(device, 4096, 1) == 4096


@pytest.mark.parametrize(
    ("gpu", "sequences", "version", "pieces", "full"),
    [
        ("L40S", 128, "0.22.0", 35, 19),
        ("L40S", 256, "0.22.0", 51, 35),
        ("H100-SXM5-80GB", 1024, "0.33.0", 51, 51),
        ("B200-SXM6-180GB", 1024, "0.33.0", 83, 83),
    ],
)
def test_captured_sizes_are_those_that_the_logs_print(
    gpu: str, sequences: int, version: str, pieces: int, full: int
) -> None:
    """``PIECEWISE=35 (largest=256), FULL=19 (largest=128)``, ``PIECEWISE=51 (largest=512),
    FULL=35 (largest=256)``.
    """
    release, device = VllmRelease(version=parse_version(version)), resolve_gpu(gpu).to_device()

    sizes = count_captured_sizes(release, sequences, device)

    assert (sizes.pieces, sizes.full) == (pieces, full)


@pytest.mark.parametrize(
    ("gpu", "version", "dtype", "tokens"),
    [
        ("H100-SXM5-80GB", Version(0, 18), DType.BF16, 64),
        ("H100-SXM5-80GB", Version(0, 33), DType.BF16, 16),
        ("H100-SXM5-80GB", Version(0, 33), DType.FP8, 64),
        ("B200-SXM6-180GB", Version(0, 33), DType.BF16, 32),
        ("A100-SXM4-80GB", Version(0, 33), DType.BF16, 16),
    ],
)
def test_blocks_of_latent_attention_follow_its_kernel(
    gpu: str, version: Version, dtype: DType, tokens: int
) -> None:
    """FlashAttention's and Triton's kernels take 16, FlashInfer's 32, FlashMLA 64."""
    device = resolve_gpu(gpu).to_device()

    assert get_block_tokens(version, device, latent=True, cache_dtype=dtype) == tokens


@pytest.mark.parametrize(
    ("version", "memory_gib", "chunk", "fraction"),
    [
        # 512 + 1.5 x 8192 + 2 x 256 + 128 MiB; since 0.5.10 58 sizes of prefill of 8 MiB each
        ("0.5.5", 80, 8192, round(1 - 13440 / 81920, 3)),
        ("0.5.10", 80, 8192, round(1 - 13904 / 81920, 3)),
        # 512 + 1.5 x 2048 + 2 x 24 + 128; then 512 + 1.5 x 4096 + 2 x 48 + 128 + 50 x 8
        ("0.5.5", 24, 2048, round(1 - 3760 / 24576, 3)),
        ("0.5.23", 24, 4096, round(1 - 7280 / 24576, 3)),
    ],
)
def test_sglang_leaves_room_for_what_it_captures(
    version: str, memory_gib: int, chunk: int, fraction: float
) -> None:
    """``mem_fraction_static`` leaves out chunks, decode batches and, since 0.5.10, prefill."""
    release, memory_mib = parse_version(version), memory_gib * 1024

    assert get_chunk_tokens(release, memory_mib) == chunk
    assert get_memory_fraction(release, memory_mib, chunk, Layout(), latent=False) == fraction


@pytest.mark.parametrize(
    ("version", "memory_gib", "chunk", "fraction"),
    [
        ("0.4.4", 141, 8192, 0.88),
        ("0.4.6", 141, 8192, 128 / 141),
        ("0.4.7", 80, 8192, 0.88),
        ("0.4.7", 141, 8192, 123 / 141),
        ("0.4.7", 180, 16384, 0.79),
        # 2.8 GiB and a tenth a rank; 9.5 and a half; 12 and a half; 32
        ("0.4.8", 24, 2048, round(1 - 2.9 / 24, 3)),
        ("0.4.10", 80, 8192, 0.875),
        ("0.5.2", 141, 8192, round(1 - 12.5 / 141, 3)),
        ("0.5.1", 180, 16384, round(1 - 32 / 180, 3)),
    ],
)
def test_sglang_kept_free_what_its_table_said(
    version: str, memory_gib: int, chunk: int, fraction: float
) -> None:
    """One GPU's defaults of 0.4.0 to 0.5.2 (``srt/server_args.py``, ``__post_init__``)."""
    release, memory_mib = parse_version(version), memory_gib * 1024

    assert get_chunk_tokens(release, memory_mib) == chunk
    assert get_memory_fraction(release, memory_mib, chunk, Layout(), latent=False) == pytest.approx(
        fraction
    )


@pytest.mark.parametrize(
    ("version", "guessing", "reserved_mib"),
    [
        ("0.5.13", Speculative(num_tokens=3), 13904),
        ("0.5.13", Speculative(num_tokens=3, head=DraftHead.MTP), 13904 + 2048),
        ("0.5.13", Speculative(num_tokens=3, config="{}"), 13904 + 6144),
        ("0.5.14", Speculative(num_tokens=3, config="{}"), 13904),
    ],
)
def test_sglang_left_room_for_who_guesses(
    version: str, guessing: Speculative, reserved_mib: int
) -> None:
    """A head took 2 GiB and a draft model 6 on top until 0.5.13 (``srt/server_args.py``)."""
    fraction = get_memory_fraction(
        parse_version(version), 81920, 8192, Layout(), latent=False, speculative=guessing
    )

    assert fraction == round(1 - reserved_mib / 81920, 3)


def test_an_answer_names_the_release_that_it_is_of() -> None:
    """The newest that was read where none or a later one is said, else the one said."""
    answers = [_serve(version) for version in (None, "9.0.0", "0.19.0")]

    assert [answer.serving and answer.serving.engine_version for answer in answers] == [
        "0.33.0",
        "0.33.0",
        "0.19.0",
    ]


@pytest.mark.parametrize("capability", ["9.0", "10.0"])
def test_a_gpu_of_another_generation_is_another_replica(capability: str) -> None:
    """What is kept of one GPU's replica answers no other, though name and memory are the same."""
    plans, gpu = PlanCache(), resolve_gpu("H100-SXM5-80GB").to_device()
    model, workload = (
        architecture_from_config(LLAMA_8B),
        ServeWorkload(num_sequences=1, prompt_tokens=16, engine=Engine.VLLM),
    )
    other = replace(gpu, compute_capability={"9.0": "10.0", "10.0": "9.0"}[capability])
    this = replace(gpu, compute_capability=capability)
    estimate(model, workload, layout=Layout(), device=other, plans=plans)

    kept = estimate(model, workload, layout=Layout(), device=this, plans=plans)

    assert kept == estimate(model, workload, layout=Layout(), device=this)


@pytest.mark.parametrize("usable_bytes", [1, 200 * MIB])
def test_sglang_has_no_pool_on_a_gpu_smaller_than_what_it_leaves_free(usable_bytes: int) -> None:
    """A fraction below nothing of memory below nothing is no memory."""
    gpu = Device(name="small", capacity_bytes=usable_bytes, usable_bytes=usable_bytes)
    workload = ServeWorkload(num_sequences=1, prompt_tokens=16, engine=Engine.SGLANG)

    answer = estimate(architecture_from_config(LLAMA_8B), workload, layout=Layout(), device=gpu)

    assert answer.serving is not None
    assert answer.serving.kv_pool_bytes == 0
    assert answer.device_bytes > usable_bytes
