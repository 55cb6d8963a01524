"""Spellings of models: addresses, sizes and words mean one model, or are a question with names."""

import pytest

from service.base.errors import UnknownModelError
from service.catalog.spellings import (
    list_models_of_size,
    parse_hub_address,
    parse_size,
    read_spelling,
)


@pytest.mark.parametrize(
    "address",
    [
        "https://huggingface.co/Qwen/Qwen3-8B",
        "http://www.huggingface.co/Qwen/Qwen3-8B/",
        "huggingface.co/Qwen/Qwen3-8B/tree/main?library=transformers",
        "https://hf.co/Qwen/Qwen3-8B/blob/main/config.json",
        "hf://Qwen/Qwen3-8B@main",
        "https://huggingface.co/Qwen/Qwen3-8B.git",
        " https://hf-mirror.com/Qwen/Qwen3-8B#usage ",
    ],
)
def test_an_address_of_the_hub_means_its_model(address: str) -> None:
    """Whatever page of a model is pasted, its id is read."""
    spelling = read_spelling(address)

    assert parse_hub_address(address) == "Qwen/Qwen3-8B"
    assert spelling.entry is not None
    assert spelling.entry.name == "qwen3-8b"
    assert "qwen3-8b" in spelling.note


@pytest.mark.parametrize("text", ["https://example.org/Qwen/Qwen3-8B", "Qwen/Qwen3-8B", "13B"])
def test_other_texts_are_no_addresses(text: str) -> None:
    """A page of another site names no model."""
    assert parse_hub_address(text) is None


@pytest.mark.parametrize(
    ("text", "num_parameters"),
    [("13B", 13 * 10**9), ("0.5b", 5 * 10**8), ("350 M", 35 * 10**7), ("70b params", 7 * 10**10)],
)
def test_a_size_is_a_size_and_says_which_models_have_it(text: str, num_parameters: int) -> None:
    """A number of parameters is answered as such; the catalogue's models of it are told."""
    spelling = read_spelling(text)

    assert parse_size(text) == spelling.num_parameters == num_parameters
    assert spelling.entry is None
    assert list_models_of_size(num_parameters)[0].name in spelling.note


def test_models_of_a_size_come_nearest_first() -> None:
    """Both models of 13.02e9 before the one of 13.72e9, and none of another size."""
    names = [entry.name for entry in list_models_of_size(13 * 10**9)]

    assert names[:3] == ["llama-13b", "llama-2-13b", "llava-1.5-13b"]
    assert "llama-2-7b" not in names
    assert list_models_of_size(10**13) == ()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("llama 405b", "llama-3.1-405b"),
        ("Llama 3.1 8B Instruct", "llama-3.1-8b"),
        ("llama2-7b", "llama-2-7b"),
        ("qwen 2.5 7b", "qwen2.5-7b"),
        ("qwen2.5 7B instruct", "qwen2.5-7b-instruct"),
        ("deepseek r1", "deepseek-v3"),
        ("gpt oss 20b", "gpt-oss-20b"),
        ("Mixtral 8x7B", "mixtral-8x7b"),
        ("qwen3 8b fp8", "qwen3-8b-fp8"),
        ("qwen3 8b", "qwen3-8b"),
        ("gemma_3_27b_it", "gemma-3-27b"),
    ],
)
def test_words_that_one_model_has_mean_it(text: str, name: str) -> None:
    """Case, spaces, dashes and the word for how it was tuned do not matter."""
    spelling = read_spelling(text)

    assert spelling.entry is not None
    assert spelling.entry.name == name
    assert repr(text) in spelling.note


@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        ("llama 70b", ["llama-2-70b", "llama-3-70b", "llama-3.1-70b", "llama-3.3-70b"]),
        ("mixtral", ["mixtral-8x22b", "mixtral-8x22b-instruct", "mixtral-8x7b"]),
        ("qwen3 235b", ["qwen3-235b-a22b", "qwen3-235b-a22b-2507"]),
        ("solar", ["solar-10.7b"]),
    ],
)
def test_words_of_several_models_are_a_question(text: str, candidates: list[str]) -> None:
    """A wrong guess is worse than a question: the names are told, for programs too. Without a size
    one model is a question as well: the user may mean one that the catalogue lacks.
    """
    with pytest.raises(UnknownModelError, match=candidates[0]) as refused:
        read_spelling(text)

    assert refused.value.extra["candidates"] == candidates
    assert all(name in refused.value.detail for name in candidates)


@pytest.mark.parametrize(
    "text", ["acme/new-model-7b", "https://huggingface.co/acme/new-model-7b/tree/main"]
)
def test_an_id_that_is_unknown_is_told_what_to_paste_and_where(text: str) -> None:
    """The file to save, the flag and the member of a request that take it, and how to keep it."""
    with pytest.raises(UnknownModelError) as refused:
        read_spelling(text)

    detail = refused.value.detail
    assert "https://huggingface.co/acme/new-model-7b/raw/main/config.json" in detail
    assert "--config FILE" in detail
    assert '"model": {"hf_config": {…}}' in detail
    assert "headroom models add NAME --config FILE" in detail


@pytest.mark.parametrize("text", ["gpt-9", "8x7b", "x", "acme 70b", "0b", "0.0m", "llama-3-0b"])
def test_what_means_nothing_is_refused(text: str) -> None:
    """No model is guessed for words that none has."""
    with pytest.raises(UnknownModelError, match="there is no model"):
        read_spelling(text)
