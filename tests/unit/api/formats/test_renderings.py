"""GET and POST /v1/formats: what there is, and a fit as a scheduler's client reads it."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from litestar.testing import TestClient

from service.formats.manifests.registry import FORMATS
from tests.unit.api.builders import served

QUESTION = {
    "model": "llama-3.2-1b",
    "workload": {"task": "train", "method": "lora", "sequence_length": 512},
    "gpu": "L40S",
}


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def _render(client: TestClient[Any], word: str, **more: object) -> dict[str, Any]:
    answer = client.post(f"/v1/formats/{word}", json=QUESTION | more)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_every_format_is_listed(client: TestClient[Any]) -> None:
    """In the order of the table, with what each carries."""
    page = client.get("/v1/formats").json()
    first = client.get("/v1/formats", params={"limit": 3}).json()
    rest = client.get("/v1/formats", params={"cursor": first["next_cursor"]}).json()

    assert [item["word"] for item in page["items"]] == list(FORMATS)
    assert first["items"] + rest["items"] == page["items"]
    assert page["next_cursor"] is None
    podgroup = next(item for item in page["items"] if item["word"] == "podgroup")
    assert (podgroup["trains"], podgroup["serves"], podgroup["vendors"]) == (True, False, None)


def test_a_rendering_has_the_bytes_of_the_fit(client: TestClient[Any]) -> None:
    """The limit is the upper end of the interval that the fit has, with the image that was said."""
    fit = client.post("/v1/fit", json=QUESTION).json()
    answer = _render(client, "hami", container_image="registry.example/mine:7")

    (job,) = answer["document"]["items"]
    container = job["spec"]["template"]["spec"]["containers"][0]
    _, high = fit["per_gpu"]["intervals"]["device"]
    assert answer["verdict"] == fit["verdict"] == "fits"
    assert container["resources"]["limits"]["nvidia.com/gpumem"] == str(-(-high // 2**20))
    assert container["image"] == "registry.example/mine:7"
    assert job["metadata"]["name"] == "llama-3-2-1b-train"


def test_text_is_the_document_as_a_file(client: TestClient[Any]) -> None:
    """Objects are YAML, a script is its own text."""
    objects, script = _render(client, "kueue"), _render(client, "slurm")

    assert list(yaml.safe_load_all(objects["text"])) == objects["document"]["items"]
    assert script["text"] == script["document"]
    assert script["text"].startswith("#!/bin/bash\n")


def test_what_does_not_fit_is_not_rendered(client: TestClient[Any]) -> None:
    """The reason says how much lacks."""
    answer = _render(client, "kubernetes", gpu="T4", model="llama-2-70b")

    assert (answer["verdict"], answer["document"], answer["text"]) == ("does_not_fit", None, None)
    assert answer["reason"].startswith("it does not fit: each GPU lacks ")


def test_a_format_that_cannot_carry_it_says_why(client: TestClient[Any]) -> None:
    """One pod is no gang."""
    answer = _render(client, "podgroup")

    assert (answer["verdict"], answer["document"]) == ("fits", None)
    assert answer["reason"].endswith("format kubernetes")


def test_an_unknown_format_is_refused_with_those_there_are(client: TestClient[Any]) -> None:
    """The path is what is wrong, and the answer lists what would be right."""
    answer = client.post("/v1/formats/nomad", json=QUESTION)

    assert answer.status_code == 422
    assert "there is no format 'nomad'; formats: kubernetes, dra" in answer.json()["detail"]


@pytest.mark.parametrize(
    "more", [{"format": "kubernetes"}, {"container_image": "a b"}, {"remedies": False}]
)
def test_what_has_no_place_in_the_request_is_refused(
    client: TestClient[Any], more: dict[str, object]
) -> None:
    """The format is in the path, an image is a name, and there is nothing to remedy."""
    assert client.post("/v1/formats/slurm", json=QUESTION | more).status_code == 422


def test_options_are_of_the_installation(client: TestClient[Any]) -> None:
    """Names, queue and namespace that were said; one that the format lacks has its reason."""
    options = {"queue": "team-a", "namespace": "ml", "name": "mine", "gate": True}
    answer = _render(client, "kueue", format_options=options)
    refused = _render(client, "slurm", format_options={"queue": "team-a"})

    (job,) = answer["document"]["items"]
    assert job["metadata"] == {
        "name": "mine",
        "namespace": "ml",
        "labels": {"kueue.x-k8s.io/queue-name": "team-a"},
        "annotations": {"kueue.x-k8s.io/admission-gated-by": "headroom.dev/fit"},
    }
    assert (refused["document"], refused["reason"]) == (
        None,
        "slurm takes no queue: its options are name",
    )


@pytest.mark.parametrize(
    "options", [{"queue": "Team A"}, {"name": "1st"}, {"gates": True}, {"topology": "a b"}]
)
def test_an_option_that_no_scheduler_takes_is_refused(
    client: TestClient[Any], options: dict[str, object]
) -> None:
    """A name is one of Kubernetes, and an unknown option is none."""
    answer = client.post("/v1/formats/kueue", json=QUESTION | {"format_options": options})

    assert answer.status_code == 422
