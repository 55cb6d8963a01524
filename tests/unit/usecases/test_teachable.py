"""Who brings a measurement learns whether it corrects anything, and if not, what it lacks."""

import pytest

from service.formats.measured.reading import Quantity
from service.usecases.teachable import why_silent

RELEASES = {"torch": "2.13.0", "transformers": "5.23.0"}


@pytest.mark.parametrize(
    ("told", "environment", "words"),
    [
        ([Quantity.ALLOCATED], RELEASES, ()),
        ([Quantity.ALLOCATED, Quantity.RESERVED], {"torch": "2.13.0"}, ("releases of torch and transformers",)),
        ([Quantity.DEVICE], RELEASES, ("PyTorch's allocator counted",)),
        ([], {}, ("PyTorch's allocator counted", ", nor the releases")),
    ],
)
def test_what_is_lacking_is_said(told: list[Quantity], environment: dict[str, str], words: tuple[str, ...]) -> None:
    """Device bytes alone, or an unknown release, are stored and correct nothing: each is named once."""
    said = why_silent(told, environment)

    assert len(said) == bool(words)
    assert all(word in said[0] for word in words)
