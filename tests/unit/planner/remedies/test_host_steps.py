"""What helps llama.cpp and engines: smaller files and caches, and weights that the host keeps."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.values.dtypes import CacheType
from service.estimator.values.workload import Engine, Quantization, ServeWorkload
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.fit import assess_fit
from service.planner.fit.verdict import Verdict
from service.planner.remedies import host_steps, serving_steps
from service.planner.remedies.effects import describe_effects
from service.planner.remedies.find import find_changes
from tests.unit.planner.builders import CHAT, ONE_GPU, a_subject

FILE = replace(CHAT, engine=Engine.LLAMA_CPP, quantization=Quantization.Q4_K_M)
CARD = resolve_gpu("RTX-3060-12GB").to_device()


def _subject(name: str) -> Evaluator:
    return a_subject(name, usable_bytes=CARD.usable_bytes)


@pytest.mark.parametrize(
    ("name", "word"), [("qwen2.5-32b", "gpu_layers"), ("qwen3-30b-a3b", "cpu_moe_layers")]
)
def test_the_host_keeps_as_little_as_is_needed(name: str, word: str) -> None:
    """Of a file that is too large no change on its own GPU was named, though people leave layers,
    or experts, to the host: one layer more on the GPU does not fit, and no time is made up.
    """
    subject = _subject(name)
    remedies = [
        remedy
        for remedy in find_changes(subject, FILE, ONE_GPU)
        if isinstance(remedy.workload, ServeWorkload) and getattr(remedy.workload, word) is not None
    ]

    (remedy,) = (one for one in remedies if one.num_gpus == 1 and one.verdict is Verdict.FITS)
    milder = getattr(remedy.workload, word) + (1 if word == "gpu_layers" else -1)
    assert assess_fit(subject, remedy.workload, ONE_GPU).verdict is Verdict.FITS
    above = replace(remedy.workload, **{word: milder})
    assert assess_fit(subject, above, ONE_GPU).verdict is not Verdict.FITS
    assert (remedy.cost.time_ratio, remedy.cost.cost_ratio) == (None, None)
    (effect,) = describe_effects(
        subject.architecture, (FILE, ONE_GPU), (remedy.workload, remedy.layout)
    )
    assert "host's memory" in effect


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
def test_an_engine_leaves_as_few_weights_to_the_host_as_it_takes(engine: Engine) -> None:
    """`cpu_offload_gb` was never offered: a sixty-fourth of the weights less does not fit."""
    subject = _subject("qwen2.5-14b")
    load = replace(CHAT, engine=engine, max_model_len=2048, num_sequences=1)
    remedies = [
        remedy
        for remedy in find_changes(subject, load, ONE_GPU)
        if isinstance(remedy.workload, ServeWorkload) and remedy.workload.cpu_offload_gb
    ]

    remedy = next(one for one in remedies if one.verdict is Verdict.FITS)
    assert isinstance(remedy.workload, ServeWorkload)
    size = remedy.workload.cpu_offload_gb
    assert size is not None
    assert assess_fit(subject, remedy.workload, remedy.layout).verdict is Verdict.FITS
    less = replace(remedy.workload, cpu_offload_gb=size - 1)
    assert assess_fit(subject, less, remedy.layout).verdict is not Verdict.FITS
    effects = describe_effects(
        subject.architecture, (load, ONE_GPU), (remedy.workload, remedy.layout)
    )
    assert any("host's memory" in effect for effect in effects)


def test_a_vision_tower_is_profiled_with_what_the_load_has() -> None:
    """A Qwen2.5-VL that is asked for text, or an image, never heard of `max_videos_per_prompt`:
    videos go first, then images beyond those of a prompt; other engines and models have no tower
    to limit.
    """
    model = a_subject("qwen2.5-vl-7b").architecture
    text = replace(CHAT, engine=Engine.VLLM)

    def list_limits(load: ServeWorkload) -> list[tuple[int | None, int | None]]:
        steps = [config[0] for config in serving_steps.limit_items(model, (load, ONE_GPU))]
        assert all(isinstance(step, ServeWorkload) for step in steps)
        return [
            (step.max_videos_per_prompt, step.max_images_per_prompt)
            for step in steps
            if isinstance(step, ServeWorkload)
        ]

    assert list_limits(text) == [(0, None), (0, 0)]
    assert list_limits(replace(text, num_images=2)) == [(0, None), (0, 2)]
    assert list_limits(replace(text, max_videos_per_prompt=0, max_images_per_prompt=0)) == []
    assert list_limits(replace(text, engine=Engine.SGLANG)) == []
    plain = a_subject("gpt2").architecture
    assert list(serving_steps.limit_items(plain, (text, ONE_GPU))) == []
    limited = replace(text, max_videos_per_prompt=0)
    assert describe_effects(model, (text, ONE_GPU), (limited, ONE_GPU)) == (
        "prompts have no videos",
    )


def test_files_and_caches_of_fewer_bits_are_tried() -> None:
    """Only what is smaller than the file that is asked about, and of llama.cpp alone."""
    large = replace(FILE, quantization=Quantization.Q6_K)
    files = [workload.quantization for workload, _ in _list_served(large)]

    assert files == [Quantization.Q5_K_M, Quantization.Q4_K_M, Quantization.Q4_0]
    caches = [config[0] for config in host_steps.use_cache_of_blocks((FILE, ONE_GPU))]
    assert caches == [
        replace(FILE, cache_type=CacheType.Q8_0),
        replace(FILE, cache_type=CacheType.Q4_0),
    ]
    for step in (host_steps.use_smaller_file, host_steps.use_cache_of_blocks):
        assert list(step((replace(CHAT, engine=Engine.VLLM), ONE_GPU))) == []


def _list_served(workload: ServeWorkload) -> list[tuple[ServeWorkload, object]]:
    return [
        (smaller, layout)
        for smaller, layout in host_steps.use_smaller_file((workload, ONE_GPU))
        if isinstance(smaller, ServeWorkload)
    ]
