"""Documents of recordings, of the newest format and of those before."""

import pytest

from service.estimator.model.recorded.encoding import FORMAT, READ_FORMATS
from service.estimator.values.errors import InvalidInputError
from service.usecases.recordings.documents import (
    has_newest_format,
    pack_document,
    read_document,
)
from tests.recordings import make_document


def test_a_document_of_before_is_read_and_not_the_newest() -> None:
    """It may lack passes that a recorder of today writes, so that its config is recorded anew."""
    document = make_document()
    passes = {name: part for name, part in document["passes"].items() if "half_auto" not in name}
    before = {**document, "format": 2, "passes": passes}

    model = read_document(before)

    assert "half_autocast" not in model.recorded.variants
    assert not has_newest_format(pack_document(before))
    assert has_newest_format(pack_document({**document, "format": FORMAT}))


def test_a_document_of_another_format_is_refused() -> None:
    """The refusal names the formats that are read."""
    document = {**make_document(), "format": FORMAT + 1}

    with pytest.raises(InvalidInputError, match=" or ".join(map(str, READ_FORMATS))):
        read_document(document)
