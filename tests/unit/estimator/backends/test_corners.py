"""Mixtures, latent attention, towers and odd sizes on serving engines."""

from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.backends.llama_cpp.gguf import file_bytes
from service.estimator.backends.paged_pool.blocks import Paging, build_pool
from service.estimator.backends.paged_pool.layer_caches import LayerCache
from service.estimator.backends.paged_pool.rank_memory import build_ranks, split_layers
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.units import GIB
from service.estimator.values.workload import Engine, Quantization, ServeWorkload
from tests.unit.estimator.backends.test_vllm import LLAMA_8B

H100 = resolve_gpu("H100-SXM5-80GB").to_device()
POOLED = [Engine.VLLM, Engine.SGLANG, Engine.TENSORRT_LLM]


def serve(
    model: str,
    engine: Engine = Engine.VLLM,
    *,
    layout: Layout | None = None,
    **words: Any,  # noqa: ANN401 - words differ
) -> Estimate:
    """Ask what a catalogue model needs on H100s."""
    asked: dict[str, Any] = {"num_sequences": 2, "prompt_tokens": 500, "output_tokens": 12}
    workload = ServeWorkload(engine=engine, **asked | words)
    architecture = load_architecture(resolve_model(model))
    return estimate(architecture, workload, layout=layout or Layout(), device=H100)


def weights(answer: Estimate) -> int:
    """Return the bytes of a rank's weights."""
    return next(component.bytes for component in answer.components if component.name == "weights")


def test_expert_ranks_have_a_share_of_the_experts() -> None:
    """Two replicas that spread their experts over both hold half of them each, and all of
    attention.
    """
    whole = weights(serve("qwen3-30b-a3b", layout=Layout(data_parallel=2)))
    spread = weights(serve("qwen3-30b-a3b", layout=Layout(data_parallel=2, expert_parallel=2)))
    experts = 48 * 128 * 3 * 2048 * 768 * 2

    assert whole - spread == experts // 2


def test_experts_that_ranks_do_not_divide_are_refused() -> None:
    """60 experts are no multiple of 8."""
    with pytest.raises(InvalidInputError):
        serve("qwen1.5-moe-a2.7b", layout=Layout(data_parallel=8, expert_parallel=8))


def test_a_latent_is_on_every_rank() -> None:
    """Latent attention caches 576 elements a token and layer, however many ranks share its
    heads.
    """
    one, two = (
        serve("deepseek-v2-lite", layout=Layout(tensor_parallel=ranks)).serving for ranks in (1, 2)
    )

    assert one is not None
    assert two is not None
    assert one.kv_bytes_per_token == two.kv_bytes_per_token == 27 * 576 * 2


_WITH_STATES = (Engine.VLLM, Engine.SGLANG)


@pytest.mark.parametrize(
    ("engine", "model"),
    [
        *((engine, "bert-base") for engine in POOLED),
        *((engine, "mamba-130m") for engine in POOLED if engine not in _WITH_STATES),
    ],
)
def test_models_without_pages_are_refused(engine: Engine, model: str) -> None:
    """A BERT that predicts words has no cache; two engines have a term for states of sequences."""
    with pytest.raises(NotModelledError):
        serve(model, engine)


def test_a_tower_that_is_not_counted_is_told() -> None:
    """VLLM profiles it and SGLang does not."""
    counted, left_out = (serve("gemma-3-4b", engine).warnings for engine in _WITH_STATES)

    assert not any("vision tower" in warning for warning in counted)
    assert any("vision tower" in warning for warning in left_out)


def test_two_tables_of_rotations() -> None:
    """Gemma 3 turns its windows by another base: a table of all positions, and one of the eightfold
    for full attention.
    """
    (rank,) = build_ranks(
        load_architecture(resolve_model("gemma-3-27b")), Layout(), scheme=None, dtype=DType.BF16
    )

    assert rank.table_bytes == (1 + 8) * 131072 * 128 * 2


def test_a_tied_head_stands_on_the_last_stage_again() -> None:
    """Both ends of a pipeline need the table."""
    model = architecture_from_config(LLAMA_8B | {"tie_word_embeddings": True})
    first, last = build_ranks(model, Layout(pipeline_parallel=2), scheme=None, dtype=DType.BF16)

    assert last.weight_bytes - first.weight_bytes == 4096 * 2


@pytest.mark.parametrize(
    ("layers", "stages", "expected"), [(32, 4, (8, 8, 8, 8)), (30, 4, (7, 8, 8, 7)), (5, 2, (3, 2))]
)
def test_layers_left_over_go_to_stages_before_the_last(
    layers: int, stages: int, expected: tuple[int, ...]
) -> None:
    """The last stage has the head already."""
    assert split_layers(layers, stages) == expected


def test_groups_of_nearly_equal_kinds_are_padded() -> None:
    """12 layers with a window and 13 without make two groups of 13, not three of 12."""
    paging = Paging(block_tokens=16, batched_tokens=8192, hybrid=True)
    caches = (LayerCache(1024, 128, 12), LayerCache(1024, None, 13))
    pool = build_pool(caches, 2, GIB, paging)

    assert len(pool.groups) == 2
    assert pool.block_bytes == 13 * 1024 * 2 * 16


@pytest.mark.parametrize(
    ("gpu", "ranks", "version", "fraction"),
    [
        ("H100-SXM5-80GB", 1, "0.4.6", 0.88),
        ("H100-SXM5-80GB", 8, "0.4.6", 0.81),
        ("H200-SXM5-141GB", 1, "0.4.6", 0.907),
        ("T4", 1, "0.5.5", 0.758),
        ("RTX-4090", 1, "0.5.5", 0.848),
        ("L40S", 8, "0.5.5", 0.824),
        ("H100-SXM5-80GB", 1, "0.5.5", 0.835),
        ("B200-SXM6-180GB", 1, "0.5.5", 0.857),
    ],
)
def test_sglang_chooses_its_fraction(gpu: str, ranks: int, version: str, fraction: float) -> None:
    """By the number of ranks until 0.4, from the sizes of a chunk and of its graphs since."""
    device = resolve_gpu(gpu).to_device()
    workload = ServeWorkload(
        num_sequences=1, prompt_tokens=8, engine=Engine.SGLANG, engine_version=version
    )
    model = load_architecture(resolve_model("qwen3-0.6b"))
    answer = estimate(model, workload, layout=Layout(tensor_parallel=ranks), device=device)
    hopper = gpu[0] in "HB"
    outside = (520 if hopper else 280) + ((1280 if hopper else 195) if ranks > 1 else 0)

    assert answer.serving is not None
    assert answer.serving.budget_bytes / (device.usable_bytes - outside * 2**20) == pytest.approx(
        fraction, abs=0.002
    )


@pytest.mark.parametrize(
    ("version", "outside_mib"),
    [("0.6.4", 280 + 80), ("0.7.3", 80), ("0.15.0", 130), ("0.18.0", 250), ("0.19.0", 250)],
)
def test_what_lies_outside_of_pytorch_by_release(version: str, outside_mib: int) -> None:
    """The budget lacks what each release's logs show: 0.13 GiB before 0.18 captured graphs on
    trial, 0.25 since.
    """
    name = "RTX-3090" if version == "0.6.4" else "H100-SXM5-80GB"
    device = resolve_gpu(name).to_device()
    workload = ServeWorkload(
        num_sequences=1,
        prompt_tokens=8,
        engine=Engine.VLLM,
        engine_version=version,
        max_model_len=2048,
    )
    answer = estimate(
        load_architecture(resolve_model("qwen3-0.6b")), workload, layout=Layout(), device=device
    )
    parts = {component.name: component.bytes for component in answer.components}

    assert answer.serving is not None
    left = answer.serving.budget_bytes - parts["weights"] - parts["activations"] - parts["kv_cache"]
    assert left == pytest.approx(outside_mib * 2**20, abs=2 * 28 * 2048 * 16 * 2)


def test_two_old_ranks_talk() -> None:
    """V0's second rank adds a communicator of 1.8 GiB (pull request 10511)."""
    answer = serve("llama-3-8b", engine_version="0.7.3", layout=Layout(tensor_parallel=2))

    assert any(component.name == "communication_buffers" for component in answer.components)


@pytest.mark.parametrize(
    ("model", "gigabytes"),
    [("mixtral-8x7b", 28.45), ("qwen2-0.5b", 0.398), ("phi-3-medium-4k", 8.57)],
)
def test_mixtures_of_formats_follow_the_model(model: str, gigabytes: float) -> None:
    """Published Q4_K_M files: eight experts in more bits, rows that blocks do not divide, fused
    projections.
    """
    found = file_bytes(load_architecture(resolve_model(model)), Quantization.Q4_K_M, DType.BF16)
    table = 0 if model == "qwen2-0.5b" else found.table

    assert (table + found.head + found.layers) / 1e9 == pytest.approx(gigabytes, rel=0.03)


def test_experts_alone_are_in_mxfp4() -> None:
    """The rest of such a file is Q8_0."""
    found = file_bytes(
        load_architecture(resolve_model("gpt-oss-20b")), Quantization.MXFP4, DType.BF16
    )

    assert (found.table + found.head + found.layers) / 1e9 == pytest.approx(12.1, rel=0.03)


def test_a_gpu_known_by_its_memory_stands_for_one_of_its_size() -> None:
    """Default batches follow the memory: large GPUs profile 8,192 tokens, others 2,048, and 0.19
    has a buffer for each processor.
    """
    model = load_architecture(resolve_model("qwen3-0.6b"))
    workload = ServeWorkload(
        num_sequences=1, prompt_tokens=8, engine=Engine.VLLM, engine_version="0.19.0"
    )
    peaks = []
    for gib in (24, 40, 80):
        device = Device(name="custom", capacity_bytes=gib * GIB, usable_bytes=gib * GIB)
        answer = estimate(model, workload, layout=Layout(), device=device)
        peaks.append(
            next(
                component.bytes
                for component in answer.components
                if component.name == "activations"
            ),
        )

    assert peaks[0] < peaks[1] < peaks[2]
