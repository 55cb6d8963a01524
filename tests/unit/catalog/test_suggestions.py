"""What a name that the catalogue lacks is told: a slip, a packing, its family, or nothing."""

import pytest

from service.base.errors import UnknownModelError
from service.catalog.spellings import read_spelling
from service.catalog.suggestions import PackedModel, find_packed, list_relatives, list_slips


@pytest.mark.parametrize(
    ("name", "meant"), [("llama-2-7bb", "llama-2-7b"), ("meta-llama/llama-3.2-1c", "llama-3.2-1b")]
)
def test_a_slip_of_the_finger_is_told_what_was_meant(name: str, meant: str) -> None:
    """The same numbers, and nearly the same letters."""
    assert list_slips(name) == (meant,)


@pytest.mark.parametrize(
    "name", ["microsoft/Phi-3-small-128k-instruct", "microsoft/Phi-3-vision-128k-instruct"]
)
def test_a_word_of_other_models_is_no_slip(name: str) -> None:
    """Small is not mini, though spelt nearly alike: its relatives are named instead."""
    assert list_slips(name) == ()
    assert list_relatives(name)[0].startswith("phi-3-")


@pytest.mark.parametrize(
    "name", ["google/gemma-4-12B-it", "deepseek-ai/DeepSeek-V4-Flash", "gpt-9"]
)
def test_other_numbers_are_another_model(name: str) -> None:
    """Gemma 4 12B is spelt nearly like Gemma 3 12B, which nobody means."""
    assert list_slips(name) == ()


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("moonshotai/Kimi-K2-Thinking", "kimi-k2"),
        ("google/gemma-4-E4B-it", "gemma-4-26b-a4b"),
        ("zai-org/GLM-4.7-Flash", "glm-4.6"),
        ("lama-2-8b", "llama-2-7b"),
    ],
)
def test_a_family_has_its_nearest_release_and_size(name: str, nearest: str) -> None:
    """A family's word may be misspelt; its release counts before its size."""
    assert list_relatives(name)[0] == nearest


@pytest.mark.parametrize("name", ["hexgrad/Kokoro-82M", "acme/new-model-7b", "org/all-new-3b", "x"])
def test_a_name_of_no_family_is_told_none(name: str) -> None:
    """No suggestion is better than a wrong one."""
    with pytest.raises(UnknownModelError) as refused:
        read_spelling(name)

    assert list_relatives(name) == ()
    assert "Did you mean" not in refused.value.detail
    assert "family" not in refused.value.detail


@pytest.mark.parametrize(
    ("name", "base", "quantization"),
    [
        ("RedHatAI/Llama-3.2-3B-Instruct-FP8-dynamic", "llama-3.2-3b", "fp8"),
        ("gaunernst/gemma-3-27b-it-int4-awq", "gemma-3-27b", "awq_int4"),
        ("nm-testing/SmolLM-1.7B-Instruct-quantized.w4a16", "smollm-1.7b", "gptq_int4"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "qwen2.5-7b-instruct", "gptq_int4"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "qwen2.5-7b-instruct", None),
        ("unsloth/llama-3-8b-bnb-4bit", "llama-3-8b", "nf4"),
        ("acme/llama-3-8b-bnb-8bit", "llama-3-8b", "int8"),
        ("unsloth/gpt-oss-20b-GGUF", "gpt-oss-20b", None),
        ("mlx-community/Qwen3-8B-4bit", "qwen3-8b", None),
    ],
)
def test_packed_weights_of_a_known_model_are_told_its_name_and_format(
    name: str, base: str, quantization: str | None
) -> None:
    """What stands behind the model's own name says how its weights are packed."""
    assert find_packed(name) == PackedModel(name=base, quantization=quantization)


def test_a_packed_model_is_told_the_question_that_is_answered() -> None:
    """The name and the word for its weights, and where its own config.json is read."""
    name = "RedHatAI/Llama-3.2-3B-Instruct-FP8-dynamic"
    with pytest.raises(UnknownModelError) as refused:
        read_spelling(name)

    assert "llama-3.2-3b with quantization fp8 (--quantization fp8)" in refused.value.detail
    assert f"hub:{name}" in refused.value.detail


@pytest.mark.parametrize("name", ["llama-3-0b", "qwen-0.0b", "mistral-0m"])
def test_a_size_of_nothing_is_no_size(name: str) -> None:
    """No ratio to it can be had; the family is told all the same."""
    assert list_relatives(name)
