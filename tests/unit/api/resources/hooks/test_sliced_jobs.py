"""Jobs that ask for slices of GPUs, at the admission webhook."""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from tests.unit.api.builders import patient_parts, served
from tests.unit.api.resources.hooks.reviews import FITS, a_job, review

SLICE = {"limits": {"nvidia.com/mig-1g.10gb": 1}}


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes."""
    with served(patient_parts()) as client:
        yield client


@pytest.mark.parametrize("mode", ["refuse", "change"])
def test_a_job_for_a_slice_is_judged_on_it(client: TestClient[Any], mode: str) -> None:
    """What a whole GPU holds, a slice of it need not, and more slices would not help."""
    whole, part = a_job(FITS), a_job(FITS, resources=SLICE)

    reviews = [review(client, document, mode) for document in (whole, part)]

    assert [answer["allowed"] for answer in reviews] == [True, False]
    assert "9.49 GiB on each A100-SXM4-80GB/1g.10gb" in reviews[1]["status"]["message"]


def test_a_question_of_another_slice_is_not_answered(client: TestClient[Any]) -> None:
    """What it says of one slice tells nothing about the other."""
    note = FITS.replace("A100-SXM4-80GB", "A100-SXM4-80GB/3g.40gb")

    answer = review(client, a_job(note, resources=SLICE), "refuse")

    assert answer["allowed"]
    assert "asks for slices 1g.10gb, and its question is of 3g.40gb" in answer["warnings"][0]
