"""vLLM against what its own start-up logs print (vLLM 0.19.0 on H100 80GB; 0.6 and 0.7 where a test
says so).
"""

from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.units import GIB
from service.estimator.values.workload import Cache, Engine, ServeWorkload
from service.planner.fit.verdict import Verdict, judge

LLAMA_8B: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
}
CODELLAMA_7B = LLAMA_8B | {
    "vocab_size": 32016,
    "num_key_value_heads": 32,
    "intermediate_size": 11008,
    "max_position_embeddings": 16384,
}
GEMMA_2_27B: dict[str, Any] = {
    "model_type": "gemma2",
    "vocab_size": 256000,
    "hidden_size": 4608,
    "num_hidden_layers": 46,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "head_dim": 128,
    "intermediate_size": 36864,
    "max_position_embeddings": 8192,
    "sliding_window": 4096,
}
QWEN_7B: dict[str, Any] = {
    "model_type": "qwen2",
    "vocab_size": 152064,
    "hidden_size": 3584,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "intermediate_size": 18944,
    "max_position_embeddings": 32768,
}


def serve(
    config: dict[str, Any] = LLAMA_8B,
    *,
    layout: Layout | None = None,
    **words: Any,  # noqa: ANN401 - each word has its own type
) -> Estimate:
    """Ask what a vLLM server with the logs' settings needs."""
    asked: dict[str, Any] = {
        "num_sequences": 1,
        "prompt_tokens": 1024,
        "max_model_len": 8192,
        "gpu_memory_fraction": 0.95,
        "engine_version": "0.19.0",
    }
    workload = ServeWorkload(engine=Engine.VLLM, **asked | words)
    device = resolve_gpu("H100-SXM5-80GB").to_device()
    return estimate(
        architecture_from_config(config), workload, layout=layout or Layout(), device=device
    )


def part(answer: Estimate, name: str) -> float:
    """Return a component in GiB."""
    return next(component.bytes for component in answer.components if component.name == name) / GIB


@pytest.mark.parametrize(
    ("config", "layout", "weights", "activations"),
    [
        (LLAMA_8B, Layout(), 14.99, 1.89),
        (LLAMA_8B, Layout(tensor_parallel=2), 7.51, 1.89),
        (LLAMA_8B, Layout(tensor_parallel=4), 3.77, 1.89),
        (LLAMA_8B, Layout(pipeline_parallel=2), 7.51, 2.01),
        (LLAMA_8B, Layout(pipeline_parallel=4), 4.26, 2.01),
        (CODELLAMA_7B, Layout(), 12.56, 0.77),
        (GEMMA_2_27B, Layout(), 50.72, 3.66),
        (QWEN_7B, Layout(), 14.25, 2.21),
        (QWEN_7B, Layout(tensor_parallel=2), 7.12, 2.21),
        (QWEN_7B, Layout(tensor_parallel=4), 3.55, 2.21),
    ],
)
def test_weights_and_profiled_peak_are_those_of_the_logs(
    config: dict[str, Any], layout: Layout, weights: float, activations: float
) -> None:
    """A rank's weights and the highest moment of its profiling run are what vLLM prints, to its
    last digit but one.
    """
    answer = serve(config, layout=layout)

    assert part(answer, "weights") == pytest.approx(weights, abs=0.01)
    assert part(answer, "activations") == pytest.approx(activations, abs=0.01)


@pytest.mark.parametrize(
    ("config", "layout", "tokens", "concurrency"),
    [
        (LLAMA_8B, Layout(), 476_016, 58.11),
        (LLAMA_8B, Layout(tensor_parallel=4), 2_209_792, 269.75),
        (LLAMA_8B, Layout(pipeline_parallel=4), 2_257_264, 275.54),
        (CODELLAMA_7B, Layout(), 126_256, 15.41),
        (GEMMA_2_27B, Layout(), 58_672, 7.16),
    ],
)
def test_the_pool_holds_what_the_logs_print(
    config: dict[str, Any], layout: Layout, tokens: int, concurrency: float
) -> None:
    """Tokens and concurrency of the pool follow vLLM's own counting, windows included."""
    serving = serve(config, layout=layout).serving

    assert serving is not None
    assert serving.kv_pool_tokens == pytest.approx(tokens, rel=0.005)
    assert serving.max_concurrency == pytest.approx(concurrency, rel=0.005)


def test_an_fp8_cache_holds_twice_the_tokens() -> None:
    """The log of the same server with an fp8 cache prints 952,032 tokens."""
    serving = serve(kv_cache_dtype=DType.FP8).serving

    assert serving is not None
    assert serving.kv_pool_tokens == pytest.approx(952_032, rel=0.005)


@pytest.mark.parametrize(
    ("config", "words", "usable_gib", "activations"),
    [
        (
            LLAMA_8B | {"max_position_embeddings": 8192},
            {"engine_version": "0.6.5", "max_model_len": 8192},
            79.22,
            1.26,
        ),
        (
            QWEN_7B | {"max_position_embeddings": 131072},
            {"engine_version": "0.7.3", "max_model_len": 2048},
            31.74,
            1.40,
        ),
    ],
)
def test_older_releases_sort_the_logits(
    config: dict[str, Any], words: dict[str, Any], usable_gib: float, activations: float
) -> None:
    """V0 sampled 256 sequences with a full sort, which takes 38 bytes per logit."""
    size = int(usable_gib * GIB)
    workload = ServeWorkload(num_sequences=1, prompt_tokens=1024, engine=Engine.VLLM, **words)
    device = Device(name="custom", capacity_bytes=size, usable_bytes=size)
    answer = estimate(architecture_from_config(config), workload, layout=Layout(), device=device)

    assert part(answer, "activations") == pytest.approx(activations, abs=0.015)


def test_components_sum_to_the_device_bytes() -> None:
    """Weights, profiled peak, pool, graphs and what lies outside of PyTorch are all that NVML
    shows.
    """
    answer = serve()

    assert sum(component.bytes for component in answer.components) == answer.device_bytes
    assert answer.device_interval.low < answer.device_bytes < answer.device_interval.high


def test_a_pool_smaller_than_the_longest_sequence_does_not_fit() -> None:
    """The engine refuses to start when not one sequence of max_model_len has room, however little
    is asked.
    """
    size = 20 * GIB
    device = Device(name="custom", capacity_bytes=size, usable_bytes=size)
    workload = ServeWorkload(
        num_sequences=1, prompt_tokens=16, engine=Engine.VLLM, max_model_len=131072
    )
    answer = estimate(architecture_from_config(LLAMA_8B), workload, layout=Layout(), device=device)

    assert judge(answer, device).verdict is Verdict.DOES_NOT_FIT
    assert any(
        "one sequence of max_model_len 131,072 tokens" in warning for warning in answer.warnings
    )


def test_a_server_that_holds_what_is_asked_fits() -> None:
    """The verdict holds what is required against the engine's budget, not the pool that fills
    it.
    """
    assert (
        judge(serve(num_sequences=32), resolve_gpu("H100-SXM5-80GB").to_device()).verdict
        is Verdict.FITS
    )


def test_more_sequences_than_the_pool_holds_do_not_fit() -> None:
    """A pool of 476,016 tokens has no room for 400 sequences of 4,096."""
    answer = serve(num_sequences=400, prompt_tokens=4096)

    assert judge(answer, resolve_gpu("H100-SXM5-80GB").to_device()).verdict is Verdict.DOES_NOT_FIT


@pytest.mark.parametrize(
    ("words", "layout", "error", "field"),
    [
        ({"engine_version": "0.4.2"}, Layout(), NotModelledError, "workload.engine_version"),
        ({"engine_version": "newest"}, Layout(), InvalidInputError, "workload.engine_version"),
        ({"num_beams": 4}, Layout(), NotModelledError, "workload.num_beams"),
        ({"cache": Cache.STATIC}, Layout(), InvalidInputError, "workload.cache"),
        ({"prompt_tokens": 9000}, Layout(), InvalidInputError, "workload.max_model_len"),
        ({}, Layout(context_parallel=2), NotModelledError, "layout.context_parallel"),
        ({}, Layout(pipeline_parallel=64), InvalidInputError, "layout.pipeline_parallel"),
    ],
)
def test_what_vllm_has_no_answer_to_is_refused(
    words: dict[str, Any], layout: Layout, error: type[Exception], field: str
) -> None:
    """The refusal names the word."""
    with pytest.raises(error) as refusal:
        serve(layout=layout, **words)

    assert getattr(refusal.value, "field", None) == field


def test_cards_without_a_fabric_open_few_channels() -> None:
    """DeepSeek-R1-Distill-Qwen-14B on two RTX 4090 by 0.7.2 (vllm-project/vllm, number 13061): 8.69
    GiB are left.
    """
    config = QWEN_7B | {
        "hidden_size": 5120,
        "num_hidden_layers": 48,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
    }
    config |= {"intermediate_size": 13824, "max_position_embeddings": 131072}
    words: dict[str, Any] = {
        "num_sequences": 1,
        "prompt_tokens": 1024,
        "max_model_len": 131072,
        "gpu_memory_fraction": 0.98,
    }

    answer = estimate(
        architecture_from_config(config),
        ServeWorkload(engine=Engine.VLLM, engine_version="0.7.2", **words),
        layout=Layout(tensor_parallel=2),
        device=resolve_gpu("RTX-4090").to_device(),
    )

    assert answer.serving is not None
    assert answer.serving.kv_pool_bytes == pytest.approx(8.69 * GIB, rel=0.01)


def test_communicators_lie_beside_the_budget_once_they_are_made() -> None:
    """Two H100 start with 77.66 GiB free where one has 78.68: 1.02 GiB more on the device, and none
    in the budget.
    """
    one, two = (serve(layout=Layout(tensor_parallel=n)) for n in (1, 2))
    contexts = [
        sum(c.bytes for c in a.components if c.name == "device_context") for a in (one, two)
    ]

    assert one.serving is not None
    assert two.serving is not None
    assert one.serving.budget_bytes == two.serving.budget_bytes
    assert (contexts[1] - contexts[0] + 250 * 2**20) / GIB == pytest.approx(78.68 - 77.66, abs=0.01)
