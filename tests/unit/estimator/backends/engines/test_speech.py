"""Whisper on vLLM: two caches in one pool, and an encoder that is profiled."""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.backends.vllm.speech import load_encoder
from service.estimator.estimate import estimate
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.speculative import Speculative
from service.estimator.values.units import MIB
from service.estimator.values.workload import Engine, Quantization, ServeWorkload

REQUESTS = ServeWorkload(num_sequences=8, prompt_tokens=4, output_tokens=200, engine=Engine.VLLM)
LARGE = load_architecture(resolve_model("whisper-large-v3"))
BLOCK = 32 * 16 * 2 * 1280 * 2
"""16 tokens of 32 layers that cache 1,280 keys and values in 16 bits."""


def _serve(
    workload: ServeWorkload = REQUESTS, layout: Layout | None = None, gpu: str = "L4"
) -> Estimate:
    device = resolve_gpu(gpu).to_device()
    return estimate(LARGE, workload, layout=layout or Layout(), device=device)


def _get_bytes(answer: Estimate, name: str) -> int:
    return sum(part.bytes for part in answer.components if part.name == name)


def test_a_request_takes_blocks_of_its_tokens_and_of_its_audio() -> None:
    """204 tokens are 13 blocks, the 1,500 positions of thirty seconds 94."""
    answer = _serve()

    assert answer.serving is not None
    assert answer.serving.kv_bytes_per_token == 32 * 2 * 1280 * 2
    assert answer.serving.kv_cache_bytes == 8 * (13 + 94) * BLOCK
    assert answer.serving.max_num_sequences == _get_bytes(answer, "kv_cache") // BLOCK // 107


def test_the_start_asks_for_the_tokens_of_a_step_as_positions() -> None:
    """``max_num_encoder_input_tokens`` is that of a step: 128 blocks on an L4, beside 28 of 448."""
    answer = _serve()

    assert answer.serving is not None
    blocks = _get_bytes(answer, "kv_cache") // BLOCK
    assert answer.serving.max_concurrency == pytest.approx(blocks / (28 + 128))
    assert answer.serving.kv_pool_tokens == int(blocks / (28 + 128) * 448)


def test_weights_have_a_bias_of_every_key() -> None:
    """VLLM fills it with zeros: 32 layers of the encoder, two attentions in 32 of the decoder."""
    answer = _serve()

    expected = (LARGE.counts.total + 96 * 1280) * 2
    assert 0 <= _get_bytes(answer, "weights") - expected < 6 * MIB


@pytest.mark.parametrize(
    ("batched_tokens", "items"), [(1500, 1), (2048, 1), (8192, 5), (30000, 20)]
)
def test_the_profiling_run_has_as_many_audios_as_a_step_has_room_for(
    batched_tokens: int, items: int
) -> None:
    """Each is read in one piece."""
    assert isinstance(LARGE, EncoderDecoder)

    encoder = load_encoder(LARGE)

    assert encoder.count_items(batched_tokens, 256) == items
    assert encoder.count_items(batched_tokens, 1) == 1
    assert encoder.count_run_bytes(1, 2) == 1500 * 11 * 1280 * 2


def test_what_the_encoder_hands_on_stays_while_the_decoder_is_profiled() -> None:
    """Five audios of 1,500 positions lie beside the sampling of 1,024 sequences on an H100."""
    one = _serve(replace(REQUESTS, max_num_batched_tokens=2999), gpu="H100-SXM5-80GB")

    two = _serve(replace(REQUESTS, max_num_batched_tokens=3000), gpu="H100-SXM5-80GB")

    token, audio = 1280 * 2, 1500 * 1280 * 2
    assert _get_bytes(two, "activations") - _get_bytes(one, "activations") == audio + token


@pytest.mark.parametrize(
    ("change", "layout", "names"),
    [
        ({"max_num_batched_tokens": 1024}, Layout(), "say 1500 or more"),
        ({"engine_version": "0.20.0"}, Layout(), "0.33"),
        ({"output_tokens": 448}, Layout(), "448"),
        ({"speculative": Speculative(num_tokens=3)}, Layout(), "without speculative"),
        ({"quantization": Quantization.FP8}, Layout(), "quantization fp8 of whisper"),
        ({"engine": Engine.SGLANG}, Layout(), "engine vllm with whisper"),
        ({}, Layout(tensor_parallel=2), "tensor_parallel of whisper"),
        ({}, Layout(pipeline_parallel=2), "pipeline_parallel of whisper"),
    ],
)
def test_what_has_no_term_is_refused(change: dict[str, Any], layout: Layout, names: str) -> None:
    """Each refusal says what would be right."""
    with pytest.raises((InvalidInputError, NotModelledError)) as refused:
        _serve(replace(REQUESTS, **change), layout)

    assert names in str(refused.value)
