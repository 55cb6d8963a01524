"""Serving on transformers beyond its newest release and 16-bit weights: versions, quantised
weights, beams.
"""

from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.generation import Client
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.units import GIB
from service.estimator.values.workload import Attention, Cache, Quantization, ServeWorkload
from tests.builders import a_device, a_model, a_serving

QWEN_7B: dict[str, Any] = {
    "model_type": "qwen2",
    "vocab_size": 152064,
    "hidden_size": 3584,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "intermediate_size": 18944,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
}


def generate(prompt_tokens: int, **words: Any) -> float:  # noqa: ANN401 - each word has its own type
    """Return the allocated GiB of one sequence of Qwen-7B that generates 2,048 tokens on an
    A100.
    """
    workload = ServeWorkload(
        num_sequences=1,
        prompt_tokens=prompt_tokens,
        output_tokens=2048,
        attention=Attention.FLASH,
        **words,
    )
    device = resolve_gpu("A100-SXM4-80GB").to_device()
    answer = estimate(architecture_from_config(QWEN_7B), workload, layout=Layout(), device=device)
    return answer.allocated_bytes / GIB


@pytest.mark.parametrize(
    ("release", "tied", "heads"), [("4.46.0", 1, 1), ("4.46.0", 0, 0), ("5.0", 1, 0)]
)
def test_awq_loads_a_tied_head_beside_its_table(release: str, tied: int, heads: int) -> None:
    """Qwen2.5-0.5B's docs read 0.68 GiB for one token of prompt: 0.43 of weights, 0.25 of a head
    that AutoAWQ wrote beside the table, until both are tied.
    """
    config = QWEN_7B | {"hidden_size": 896, "tie_word_embeddings": bool(tied)}
    config |= {"num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864}
    workload = ServeWorkload(
        num_sequences=1,
        prompt_tokens=1,
        quantization=Quantization.AWQ_INT4,
        engine_version=release,
    )
    device = resolve_gpu("A100-SXM4-80GB").to_device()
    answer = estimate(architecture_from_config(config), workload, layout=Layout(), device=device)
    load = answer.instants[0]

    assert load.name == "load"
    assert load.parts["temporaries"] == heads * 152064 * 896 * 2


def ask(**words: Any) -> Estimate:  # noqa: ANN401 - each word has its own type
    """Return the answer for two sequences of a small model."""
    return estimate(a_model(), a_serving(**words), layout=Layout(), device=a_device())


@pytest.mark.parametrize(
    ("version", "quantization", "prompt_tokens", "published"),
    [
        ("4.46.0", Quantization.NONE, 1, 14.38),
        ("4.46.0", Quantization.NONE, 30720, 19.97),
        ("4.46.0", Quantization.GPTQ_INT4, 1, 5.52),
        ("4.46.0", Quantization.GPTQ_INT4, 30720, 11.11),
        ("4.46.0", Quantization.AWQ_INT4, 1, 5.39),
        ("4.46.0", Quantization.AWQ_INT4, 30720, 10.98),
        ("4.38.2", Quantization.NONE, 6144, 20.26),
        ("4.38.2", Quantization.NONE, 30720, 42.62),
    ],
)
def test_published_peaks_of_qwen(
    version: str, quantization: Quantization, prompt_tokens: int, published: float
) -> None:
    """Qwen's speed benchmarks: 4.38 keeps logits of the whole prompt, GPTQ a buffer to make a
    weight whole.
    """
    assert generate(
        prompt_tokens, engine_version=version, quantization=quantization
    ) == pytest.approx(published, rel=0.02)


def test_beams_are_sequences() -> None:
    """Prompts are repeated for each beam before prefill, and the caller still holds his own."""
    beams, sequences = (
        ask(num_beams=3, client=Client.GENERATE),
        ask(num_sequences=6, client=Client.GENERATE),
    )

    prompts = 2 * 100 * 8
    ids_and_mask, expanded_ids = 2 * prompts, 3 * prompts
    assert beams.allocated_bytes - sequences.allocated_bytes == ids_and_mask + expanded_ids
    assert beams.serving is not None
    assert sequences.serving is not None
    assert beams.serving.kv_cache_bytes == sequences.serving.kv_cache_bytes


@pytest.mark.parametrize(
    "quantization", [Quantization.INT8, Quantization.NF4, Quantization.FP8, Quantization.AWQ_INT4]
)
def test_quantised_weights_are_smaller(quantization: Quantization) -> None:
    """Whatever the format, its codes and scales take less than 16 bits a weight."""
    assert (
        ask(quantization=quantization).instants[0].allocated_bytes
        < ask().instants[0].allocated_bytes
    )


def test_a_release_without_cache_objects_holds_two_caches() -> None:
    """Before 4.36 the caller kept the old tensors until a decode step was over."""

    def decode(version: str) -> int:
        return next(
            one.allocated_bytes
            for one in ask(engine_version=version).instants
            if one.name == "decode"
        )

    old, new = decode("4.35.0"), decode("4.36.0")
    serving = ask().serving

    assert serving is not None
    assert old - new == serving.kv_cache_bytes


@pytest.mark.parametrize(
    ("version", "error"), [("4.2.0", NotModelledError), ("new", InvalidInputError)]
)
def test_a_version_that_was_never_read_is_refused(version: str, error: type[Exception]) -> None:
    """Releases before 4.30 have no term, and a word is no version."""
    with pytest.raises(error):
        ask(engine_version=version)


def split(config: dict[str, Any], ranks: int, **words: Any) -> Estimate:  # noqa: ANN401 - each word has its own type
    """Return the answer for one of so many tensor-parallel ranks."""
    workload = ServeWorkload(num_sequences=4, prompt_tokens=1000, output_tokens=200, **words)
    layout = Layout(tensor_parallel=ranks)
    return estimate(architecture_from_config(config), workload, layout=layout, device=a_device())


def test_ranks_share_the_layers_and_the_cache_but_not_the_table() -> None:
    """The library's plan splits heads, inner features and the head; every rank has the whole
    embedding.
    """
    whole, half = split(QWEN_7B, 1), split(QWEN_7B, 2)
    table = 152064 * 3584 * 2
    loaded = [answer.instants[0].allocated_bytes for answer in (whole, half)]

    assert loaded[1] - table == pytest.approx((loaded[0] - table) / 2, rel=0.001)
    assert whole.serving is not None
    assert half.serving is not None
    assert half.serving.kv_cache_bytes * 2 == whole.serving.kv_cache_bytes


def test_only_the_last_position_meets_a_split_head() -> None:
    """Prefill makes logits of each sequence's last position, however many ranks share the head."""

    def logits(prompt_tokens: int) -> int:
        workload = ServeWorkload(num_sequences=1, prompt_tokens=prompt_tokens)
        layout = Layout(tensor_parallel=2)
        answer = estimate(
            architecture_from_config(QWEN_7B), workload, layout=layout, device=a_device()
        )
        return sum(component.bytes for component in answer.components if component.name == "logits")

    assert logits(4000) <= logits(1)


def test_quantised_shares_are_refused() -> None:
    """No plan that was read splits quantised layers."""
    with pytest.raises(NotModelledError) as refusal:
        split(QWEN_7B, 2, quantization=Quantization.NF4)

    assert refusal.value.field == "workload.quantization"


def test_a_tied_head_stays_whole_with_the_embedding() -> None:
    """Each rank holds the one table, where it had that and its half of a head."""
    untied, tied = split(QWEN_7B, 2), split(QWEN_7B | {"tie_word_embeddings": True}, 2)
    loaded = [answer.instants[0].allocated_bytes for answer in (untied, tied)]

    assert loaded[0] - loaded[1] == 152064 * 3584 * 2 // 2


VICUNA_7B: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 32000,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "intermediate_size": 11008,
    "max_position_embeddings": 4096,
}


@pytest.mark.parametrize(("version", "published"), [("4.34.0", 4.57), ("4.35.0", 4.50)])
def test_fused_modules_merge_projections(version: str, published: float) -> None:
    """AutoAWQ makes one projection of three: beside them to the end in October 2023, while it loads
    since 0.1.6.
    """
    workload = ServeWorkload(
        num_sequences=1,
        prompt_tokens=64,
        output_tokens=64,
        cache=Cache.STATIC,
        attention=Attention.EAGER,
        quantization=Quantization.AWQ_INT4,
        engine_version=version,
    )
    answer = estimate(
        architecture_from_config(VICUNA_7B), workload, layout=Layout(), device=a_device()
    )
    steady = answer.steady_bytes / GIB

    assert answer.allocated_bytes / GIB == pytest.approx(published, rel=0.03)
    assert (steady < 3.8) == (version == "4.35.0")
