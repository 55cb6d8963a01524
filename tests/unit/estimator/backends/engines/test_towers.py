"""Vision towers on vLLM and SGLang: the profiling run, and what a server keeps for images."""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.backends.vllm.profile import ProfilingBatch
from service.estimator.backends.vllm.towers import ImageTower, ItemLimits, find_tower, run_tower
from service.estimator.estimate import estimate
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Engine, ServeWorkload

REQUESTS = ServeWorkload(num_sequences=4, prompt_tokens=2000, output_tokens=100)
NO_LIMITS = ItemLimits()
QWEN, GEMMA, LLAVA = "qwen2.5-vl-7b", "gemma-3-4b", "llava-1.5-7b"


def _find_tower(
    name: str, max_model_len: int, ranks: int = 1, limits: ItemLimits = NO_LIMITS
) -> ImageTower:
    model = load_architecture(resolve_model(name))
    tower = find_tower(
        model.spec, model.images, max_model_len=max_model_len, ranks=ranks, limits=limits
    )
    assert tower is not None
    return tower


def _serve(name: str, engine: Engine, gpu: str, **words: Any) -> Estimate:  # noqa: ANN401 - each word has its own type
    workload = replace(REQUESTS, engine=engine, **words)
    model = load_architecture(resolve_model(name))
    return estimate(model, workload, layout=Layout(), device=resolve_gpu(gpu).to_device())


def _get_bytes(answer: Estimate, name: str) -> int:
    return sum(part.bytes for part in answer.components if part.name == name)


@pytest.mark.parametrize(
    ("max_model_len", "frames"), [(4096, 2), (16384, 2), (32768, 4), (114_688, 14), (10**6, 14)]
)
def test_the_longest_sequence_says_how_long_a_video_is_profiled(
    max_model_len: int, frames: int
) -> None:
    """Two frames of 12,845,056 pixels are 16,384 tokens of four patches, fourteen the most."""
    tower = _find_tower(QWEN, max_model_len)

    assert tower.item_tokens == frames // 2 * 16384
    assert tower.item_patches == 4 * tower.item_tokens
    assert tower.item_pixels == tower.item_patches * 3 * 2 * 14 * 14
    assert tower.peak_elements == 11 * 1280


@pytest.mark.parametrize(
    ("name", "patches", "elements"),
    [
        (GEMMA, 4096, 3 * 1152 + 2 * 4304),
        (LLAVA, 577, 3 * 1024 + 2 * 4096),
        ("mistral-small-3.1-24b", 12100, 3 * 1024 + 3 * 4096),
    ],
)
def test_towers_of_images_are_widest_in_their_feed_forward(
    name: str, patches: int, elements: int
) -> None:
    """Three rows, what goes into the activation, and what comes out of it; a gate is one more."""
    tower = _find_tower(name, 8192)

    assert (tower.item_patches, tower.peak_elements) == (patches, elements)


@pytest.mark.parametrize(
    ("tokens", "sequences", "items"),
    [(8192, 256, 32), (2048, 256, 8), (100, 256, 1), (8192, 1, 16)],
)
def test_a_step_has_room_for_so_many_images(tokens: int, sequences: int, items: int) -> None:
    """Images of Gemma 3 are 256 tokens, of which a prompt of 4,096 has sixteen."""
    batch = ProfilingBatch(num_tokens=tokens, num_sequences=sequences, bytes_per_element=2)

    assert _find_tower(GEMMA, 4096).count_items(batch, 4096) == items


def test_the_second_runner_keeps_what_the_tower_made_alone() -> None:
    """The first one has names for the pixels until its profiling run is over."""
    tower = _find_tower(LLAVA, 4096)
    batch = ProfilingBatch(num_tokens=8192, num_sequences=256, bytes_per_element=2)

    first, second = (
        run_tower(tower, batch, max_model_len=4096, keeps_pixels=keeps) for keeps in (True, False)
    )

    assert second.output_bytes == 14 * 576 * 4096 * 2
    assert first.output_bytes - second.output_bytes == 14 * 3 * 336 * 336 * 2
    assert first.peak_bytes == second.peak_bytes


def test_a_long_context_of_qwen_costs_the_pool_a_video() -> None:
    """At 128,000 tokens the tower's run decides, and the answer says how to leave videos out."""
    short, long = (
        _serve(QWEN, Engine.VLLM, "A100-SXM4-40GB", max_model_len=length)
        for length in (8192, 128_000)
    )

    tower = 14 * 32768 * (11 * 1280 + 1176) * 2
    assert _get_bytes(long, "activations") == tower
    assert _get_bytes(long, "kv_cache") < _get_bytes(short, "kv_cache") - 10 * 2**30
    assert any("--limit-mm-per-prompt" in text for text in long.warnings)


def test_without_videos_the_tower_is_profiled_with_images() -> None:
    """The largest image is 16,384 tokens; a long context no longer costs a video."""
    videos, images, none = (
        _serve(QWEN, Engine.VLLM, "A100-SXM4-40GB", max_model_len=128_000, **limits)
        for limits in (
            {},
            {"max_videos_per_prompt": 0},
            {"max_videos_per_prompt": 0, "max_images_per_prompt": 0},
        )
    )

    frame = 2 * 32768 * (11 * 1280 + 1176) * 2
    assert _get_bytes(videos, "activations") == 7 * frame
    assert _get_bytes(images, "activations") == frame
    assert _get_bytes(none, "activations") < frame
    assert not any("videos of" in text for text in images.warnings)
    assert any("not profiled" in text for text in none.warnings)


@pytest.mark.parametrize(("limit", "items"), [(None, 64), (1, 4), (3, 12), (99, 64)])
def test_a_prompt_has_no_more_images_than_it_may(limit: int | None, items: int) -> None:
    """Four prompts of 4,096 tokens have sixteen images of Gemma 3 each, or as many as are let."""
    batch = ProfilingBatch(num_tokens=10**6, num_sequences=4, bytes_per_element=2)
    tower = _find_tower(GEMMA, 4096, limits=ItemLimits(images=limit))

    assert tower.count_items(batch, 4096) == items


def test_limits_of_items_are_vllms_and_hold_for_requests() -> None:
    """Another engine profiles nothing; a text model is told that they have no effect."""
    with pytest.raises(InvalidInputError, match="a word of engine vllm"):
        _serve(GEMMA, Engine.SGLANG, "L4", max_images_per_prompt=1)
    with pytest.raises(InvalidInputError, match="lets a prompt have 1"):
        _serve(GEMMA, Engine.VLLM, "L4", max_images_per_prompt=1, num_images=2)

    plain = _serve("llama-3.2-1b", Engine.VLLM, "L4", max_images_per_prompt=1)
    assert any("have no effect" in text for text in plain.warnings)


def test_ranks_share_the_heads_and_inner_features() -> None:
    """Rows of hidden states stay on every rank."""
    assert _find_tower(QWEN, 8192, ranks=4).peak_elements == 3 * 1280 + 8 * 1280 // 4
    assert _find_tower(GEMMA, 8192, ranks=4).peak_elements == 3 * 1152 + 2 * 4304 // 4


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        (LLAVA, 0.95),
        # 24 layers, as its config names no num_hidden_layers, of 1,280.
        (QWEN, 0.95 * (1 - 0.1 * (1280**2 / 1024**2 - 1))),
        # The width of the tower is what its config calls hidden_size, 3,584: the least there is.
        ("qwen2-vl-7b", 0.95 * 0.8),
    ],
)
def test_sglang_leaves_more_beside_a_tower(name: str, factor: float) -> None:
    """Its default fraction shrinks by the size of the tower, and 100 MiB are for features."""
    answer = _serve(name, Engine.SGLANG, "L40S", max_model_len=4096)
    given = _serve(name, Engine.SGLANG, "L40S", max_model_len=4096, gpu_memory_fraction=0.5)

    text = _serve("qwen2.5-7b", Engine.SGLANG, "L40S", max_model_len=4096)
    assert answer.serving is not None
    assert given.serving is not None
    assert text.serving is not None
    assert answer.serving.budget_bytes == pytest.approx(
        text.serving.budget_bytes * factor, rel=1e-6
    )
    assert given.serving.budget_bytes < answer.serving.budget_bytes
    assert any("vision tower on images is not counted" in text for text in answer.warnings)


def test_sglang_serves_gemma_3_without_its_tower_unless_images_come() -> None:
    """``--enable-multimodal`` has to be said for it."""
    text = _serve(GEMMA, Engine.SGLANG, "L40S", max_model_len=4096)

    images = _serve(GEMMA, Engine.SGLANG, "L40S", max_model_len=4096, num_images=1)

    assert text.serving is not None
    assert images.serving is not None
    assert images.serving.budget_bytes < 0.92 * text.serving.budget_bytes
