"""``generate`` around the passes of a served model."""

import pytest

from service.catalog.gpus import resolve_device
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import EstimatorError
from service.estimator.values.generation import Client, Sampling
from service.estimator.values.layout import Layout
from service.estimator.values.result import Detail, Estimate
from service.estimator.values.workload import Engine, Quantization, ServeWorkload
from tests.builders import a_device, a_serving
from tests.tiny_models import tiny_config
from tests.unit.estimator.backends.test_vllm import LLAMA_8B

FALCON_7B = {"model_type": "falcon"}
OLMOE = {
    "model_type": "olmoe",
    "hidden_size": 2048,
    "intermediate_size": 1024,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "vocab_size": 50304,
    "num_experts": 64,
    "num_experts_per_tok": 8,
}


def ask(workload: ServeWorkload, config: dict[str, object] | None = None) -> Estimate:
    """Return the answer about a small llama, or about a model of a config."""
    model = architecture_from_config(config or tiny_config("llama"))
    return estimate(model, workload, layout=Layout(), device=a_device())


def instants(answer: Estimate) -> dict[str, int]:
    """Return the bytes of every instant."""
    return {instant.name: instant.allocated_bytes for instant in answer.instants}


@pytest.mark.parametrize(
    ("config", "batch", "output", "measured"),
    [
        # Peaks of ``requested_bytes`` on an H100 (torch 2.11, transformers 5.23), less cuBLAS's
        # workspace of 32 MiB; buffers that were cast with the weights are a few bytes smaller.
        (LLAMA_8B, 16, 64, 20_163_076_504),
        (OLMOE, 8, 32, 16_128_152_400),
        (FALCON_7B, 8, 32, 19_967_969_244),
    ],
    ids=["llama", "olmoe", "falcon"],
)
def test_generate_needs_what_it_needed_on_a_gpu(
    config: dict[str, object], batch: int, output: int, measured: int
) -> None:
    """Positions of each sequence, inputs that callers hold, and Falcon's math attention count."""
    workload = ServeWorkload(num_sequences=batch, prompt_tokens=1024, output_tokens=output)

    assert ask(workload, config).allocated_bytes == pytest.approx(measured, abs=1024)


def test_queries_of_one_shared_head_are_copied_for_their_product() -> None:
    """Those of several sequences lie token after token: what an H100 reserved has their copy."""
    answer = estimate(
        architecture_from_config(FALCON_7B),
        ServeWorkload(num_sequences=8, prompt_tokens=1024, output_tokens=32),
        layout=Layout(),
        device=resolve_device("H100-SXM5-80GB"),
        detail=Detail.REPLAYED,
    )

    assert answer.reserved_bytes == 20_524_826_624


def test_the_last_token_is_never_read() -> None:
    """``generate`` chooses it and stops: its keys and values are not made."""
    generated = ask(a_serving(client=Client.GENERATE, output_tokens=29))
    looped = ask(a_serving(client=Client.LOOP, output_tokens=28))

    assert generated.serving is not None
    assert looped.serving is not None
    assert generated.serving.kv_cache_bytes == looped.serving.kv_cache_bytes


def test_one_token_needs_no_decode() -> None:
    """The prompt's own logits choose it."""
    assert "decode" not in instants(ask(a_serving(client=Client.GENERATE, output_tokens=1)))


def test_sampling_holds_more_scores_than_greedy_steps() -> None:
    """Scores of the likeliest tokens and their probabilities live beside the logits."""
    greedy, sampled = (
        instants(ask(a_serving(client=Client.GENERATE, sampling=sampling)))["decode"]
        for sampling in Sampling
    )

    assert sampled - greedy >= 2 * 4 * 2 * 1000


def test_decode_copies_the_experts_of_each_token() -> None:
    """``generate`` switches to batched products, one copy of an expert's weights a row."""
    decode = instants(
        ask(ServeWorkload(num_sequences=8, prompt_tokens=16, output_tokens=8), OLMOE)
    )["decode"]
    looped = instants(
        ask(
            ServeWorkload(num_sequences=8, prompt_tokens=16, output_tokens=8, client=Client.LOOP),
            OLMOE,
        )
    )["decode"]

    assert decode - looped > 8 * 8 * 3 * 2048 * 1024 * 2 * 9 // 10


def test_nested_scales_are_there_twice_while_a_weight_is_whole() -> None:
    """Bitsandbytes adds their offset to a copy (``_dequant_linear_fallback``)."""
    workload = ServeWorkload(
        num_sequences=8,
        prompt_tokens=1024,
        output_tokens=32,
        quantization=Quantization.NF4,
    )

    answer = ask(workload, LLAMA_8B)

    scales = 4096 * 14336 // 64 * 4
    (temporaries,) = [
        dict(instant.parts)["temporaries"]
        for instant in answer.instants
        if instant.name == "decode"
    ]
    assert temporaries >= 2 * 4096 * 14336 + 2 * scales


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"client": Client.LOOP, "num_beams": 2}, "num_beams is 2"),
        ({"client": Client.LOOP, "sampling": Sampling.SAMPLE}, "sampling is sample"),
        ({"client": Client.LOOP, "engine": Engine.VLLM}, "client loop of vllm"),
        (
            {"client": Client.GENERATE, "sampling": Sampling.SAMPLE, "engine": Engine.SGLANG},
            "sampling sample of sglang",
        ),
    ],
)
def test_words_about_generate_are_its_own(changes: dict[str, object], words: str) -> None:
    """A plain loop has neither beams nor sampling, and engines have clients of their own."""
    with pytest.raises(EstimatorError, match=words):
        ask(a_serving(**changes), LLAMA_8B)
