"""Shipped measurements: each says where, when and how it was made, or is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from service.catalog.prior_measurements import PriorError, list_priors, read_priors

ENTRY = {"model": "gpt2", "request": {"device": "trace"}, "result": {"extrapolated": False}}
DOCUMENT: dict[str, Any] = {
    "source": "a machine",
    "how": "a command",
    "date": "2026-01-31",
    "environment": {"torch": "2.13.0"},
    "measurements": [ENTRY],
}


def read(**changes: object) -> list[str]:
    """Return the ids of a document that differs from a right one as said."""
    return [prior.id for prior in read_priors("file", json.dumps(DOCUMENT | changes).encode())]


def test_an_entry_knows_what_its_file_says() -> None:
    """Environment, date and source stand once in a file."""
    (prior,) = read_priors("file", json.dumps(DOCUMENT).encode())

    assert (prior.id, prior.source, prior.method, prior.model) == (
        "file/0",
        "a machine",
        "a command",
        "gpt2",
    )
    assert prior.date.isoformat() == "2026-01-31T00:00:00+00:00"
    assert prior.result["environment"] == {"torch": "2.13.0"}


@pytest.mark.parametrize("field", ["source", "how", "date", "environment"])
def test_what_does_not_say_where_when_and_how_is_refused(field: str) -> None:
    """An empty word is no source, and neither is a missing one."""
    with pytest.raises(PriorError, match=f"{field} is empty"):
        read(**{field: {} if field == "environment" else " "})
    with pytest.raises(PriorError, match="lacks"):
        list(
            read_priors(
                "file",
                json.dumps(
                    {name: value for name, value in DOCUMENT.items() if name != field}
                ).encode(),
            ),
        )


def test_what_nobody_reads_is_refused() -> None:
    """A misspelt field of a file or of an entry is named."""
    with pytest.raises(PriorError, match="sauce"):
        read(sauce="a")
    with pytest.raises(PriorError, match="modell"):
        read(measurements=[{**ENTRY, "modell": "gpt2"}])


def test_everything_that_is_shipped_can_be_read() -> None:
    """Each entry names its source and how it was made; there are none while the estimator meets
    every trace by itself.
    """
    assert all(prior.source and prior.method for prior in list_priors())


def test_every_file_beside_the_catalogue_is_shipped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever lies in the directory is read, in the order of its names; a directory that is not
    there holds nothing.
    """
    monkeypatch.setattr("service.catalog.prior_measurements._DATA", tmp_path / "priors")
    absent = list_priors.__wrapped__()
    (tmp_path / "priors").mkdir()
    for name in ("b", "a"):
        (tmp_path / "priors" / f"{name}.json").write_text(json.dumps(DOCUMENT | {"source": name}))
    found = list_priors.__wrapped__()

    assert absent == ()
    assert [prior.source for prior in found] == ["a", "b"]
