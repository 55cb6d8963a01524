"""Draft models by name: of the catalogue, of the list of shapes, and as people spell them."""

import json
from typing import Any

import pytest

from service.base.errors import UnknownModelError
from service.contract.schemas.serving import SpeculativeRequest
from service.contract.to_question.drafts import read_speculative


@pytest.mark.parametrize(
    ("draft", "name", "hidden_size", "note"),
    [
        ("qwen2.5-0.5b", "qwen2.5-0.5b", 896, None),
        (
            "mistralai/Ministral-8B-Instruct-2410",
            "mistralai/Ministral-8B-Instruct-2410",
            4096,
            "that",
        ),
        ("NousResearch/Hermes-4-70B", "llama-3.1-70b", 8192, "draft: model = llama-3.1-70b"),
    ],
)
def test_a_draft_is_named_as_a_model_is(
    draft: str, name: str, hidden_size: int, note: str | None
) -> None:
    """What is read as another model, or from the list, is said."""
    speculative, notes = read_speculative(SpeculativeRequest(num_tokens=4, draft=draft))

    assert speculative is not None
    assert speculative.name == name
    assert json.loads(speculative.config or "")["hidden_size"] == hidden_size
    assert [note in text for text in notes if note is not None] == [True] * len(notes)
    assert bool(notes) is (note is not None)


def test_a_draft_may_be_a_size() -> None:
    """A decoder of that many parameters, and no config."""
    speculative, notes = read_speculative(SpeculativeRequest(num_tokens=4, draft="0.5B"))

    assert speculative is not None
    assert speculative.config is None
    assert json.loads(speculative.spec or "")["num_hidden_layers"] > 0
    assert notes[0].startswith("draft: model = a decoder of 5e8 parameters")


def test_a_draft_that_is_none_says_what_would_be_right() -> None:
    """Under its field, with the nearest names."""
    request = SpeculativeRequest(num_tokens=4, draft="tinylama-1.1b")

    with pytest.raises(UnknownModelError, match=r"Did you mean tinyllama-1\.1b") as refusal:
        read_speculative(request)

    errors: Any = refusal.value.extra["errors"]
    assert errors[0]["field"] == "workload.speculative.draft"
