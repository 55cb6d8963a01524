"""What helps llama.cpp: smaller files and caches, and layers or experts that the host keeps."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.values.dtypes import CacheType
from service.estimator.values.workload import Engine, Quantization, ServeWorkload
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.fit import assess_fit
from service.planner.fit.verdict import Verdict
from service.planner.remedies import host_steps
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
