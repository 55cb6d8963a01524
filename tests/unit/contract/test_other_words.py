"""Words of other programs in a request, each with what would be right."""

import pytest

from service.base.errors import InvalidRequestError
from service.contract.schemas.ceilings import CeilingRequest
from service.contract.schemas.fit import FitRequest
from service.contract.to_question.validation_errors import decode

_REQUEST = {"model": "llama-3.2-1b", "gpu": "H100-SXM5-80GB"}


@pytest.mark.parametrize(
    ("workload", "says", "nearest"),
    [
        ({"task": "train", "sequence_length": 8, "trainer": "ppo"}, "its critic", "grpo"),
        ({"task": "train", "sequence_length": 8, "trainer": "ipo"}, "loss of TRL's dpo", "dpo"),
        ({"task": "serve", "engine": "Ollama"}, "runs llama.cpp", "llama_cpp"),
        ({"task": "serve", "quantization": "iq4_nl"}, "the file itself has", "q4_0"),
    ],
)
def test_a_word_of_another_program_is_refused_with_what_it_means(
    workload: dict[str, object], says: str, nearest: str
) -> None:
    """Spelling alone led from ppo to dpo, and from iq4_xs to another file's bytes."""
    with pytest.raises(InvalidRequestError, match=says) as refused:
        decode(_REQUEST | {"workload": workload}, FitRequest)

    assert f"'nearest': {nearest!r}" in str(refused.value.extra["errors"])


def test_what_is_maximized_is_known_by_the_words_of_engines() -> None:
    """A context was refused with a list of fields, of which none was said to be it."""
    request = _REQUEST | {"workload": {"task": "serve"}, "maximize": "context"}

    with pytest.raises(InvalidRequestError, match="say 'max_model_len'") as refused:
        decode(request, CeilingRequest)

    assert "'nearest': 'max_model_len'" in str(refused.value.extra["errors"])
