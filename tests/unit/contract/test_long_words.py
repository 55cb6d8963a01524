"""A stranger's long word in a refusal: its ends, and how long it was."""

import pytest

from service.base.errors import InvalidRequestError
from service.contract.to_answer.problems import MAX_TEXT, build_refusal
from service.estimator.values.errors import EstimatorError, UnknownModelTypeError

LONG = "a" * 900_000


@pytest.mark.parametrize(
    "error",
    [
        UnknownModelTypeError(LONG, known_types=("llama",)),
        InvalidRequestError(LONG, errors=[{"field": LONG, "message": LONG}]),
    ],
)
def test_a_refusal_is_not_as_long_as_what_was_asked(error: EstimatorError) -> None:
    """A body of 900,000 bytes was answered with 2,700,000."""
    document = build_refusal(error, instance="/v1/fit")

    assert len(str(document)) < 5 * MAX_TEXT
    assert "characters) … " in str(document["detail"])
    assert str(document["detail"]).endswith(("a", "."))


def test_a_refusal_of_usual_length_is_whole() -> None:
    """To its last letter."""
    words = "a" * MAX_TEXT

    assert build_refusal(InvalidRequestError(words), instance="/")["detail"] == words
