"""/v1/pipelines: what is shipped, and whether a call fits."""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from service.catalog.pipelines.shipped import list_pipeline_names, load_pipeline
from tests.unit.api.builders import served

_QUESTION: dict[str, Any] = {
    "pipeline": "flux.1-dev",
    "gpu": "RTX-4090",
    "workload": {"task": "generate", "height": 1024, "width": 1024},
}


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def ask(client: TestClient[Any], **changes: object) -> dict[str, Any]:
    """Return the answer to the question with changes."""
    answer = client.post("/v1/pipelines/fit", json={**_QUESTION, **changes})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_every_pipeline_is_listed_with_its_weights(client: TestClient[Any]) -> None:
    """Components have exact parameters and bytes by format."""
    items = client.get("/v1/pipelines").json()["items"]

    flux = next(item for item in items if item["name"] == "flux.1-dev")
    transformer = next(part for part in flux["components"] if part["name"] == "transformer")
    assert [item["name"] for item in items] == list(list_pipeline_names())
    assert transformer["weight_bytes"] == {
        "bf16": 23_802_816_640,
        "fp16": 23_802_816_640,
        "fp32": 47_605_633_280,
    }


def test_what_does_not_fit_has_remedies_that_fit(client: TestClient[Any]) -> None:
    """FLUX is too large for 24 GB until its blocks come one by one; asked, that gives the same."""
    answer = ask(client)

    change = answer["remedies"][0]["change"]
    again = ask(client, workload={**_QUESTION["workload"], **change})
    saved = answer["per_gpu"]["device_bytes"] - again["per_gpu"]["device_bytes"]
    assert (answer["verdict"], again["verdict"]) == ("does_not_fit", "fits")
    assert answer["per_gpu"]["peak_instant"] == "decoding"
    assert answer["remedies"][0]["saves_bytes"] == saved


def test_a_checkpoints_own_configs_are_taken(client: TestClient[Any]) -> None:
    """A model_index.json with the configs of SDXL is SDXL, and the answer says so."""
    pipeline = load_pipeline("stable-diffusion-xl")
    configs = {name: dict(part.config) for name, part in pipeline.components.items()}
    inline = {"model_index": {"_class_name": pipeline.class_name}, "configs": configs}

    answer = ask(client, pipeline=inline, gpu="L4")

    assert "pipeline: its configs are those of stable-diffusion-xl" in answer["assumptions"]


@pytest.mark.parametrize(
    ("pipeline", "size"),
    [
        ("flux.1-schnell", (1024, 1024, 1)),
        ("hunyuanvideo", (720, 1280, 129)),
        ("ltx-video-0.9", (512, 704, 161)),
        ("stable-diffusion-1.5", (512, 512, 1)),
        ("stable-diffusion-3.5-large", (1024, 1024, 1)),
        ("wan2.1-t2v-1.3b", (480, 832, 81)),
    ],
)
def test_a_call_without_a_size_has_its_own(
    client: TestClient[Any], pipeline: str, size: tuple[int, int, int]
) -> None:
    """It is the call's default (diffusers 0.42.1), counted as if it were said, and told."""
    said = dict(zip(("height", "width", "num_frames"), size, strict=True))
    latents = {"output_type": "latent"}

    unsaid, asked = (
        ask(client, pipeline=pipeline, workload=workload | latents, remedies=False)
        for workload in ({}, said)
    )

    assert unsaid["per_gpu"] == asked["per_gpu"]
    assert f"workload.height = {size[0]}" in unsaid["assumptions"]
    assert f"workload.width = {size[1]}" in unsaid["assumptions"]
    is_video = size[2] > 1
    assert (f"workload.num_frames = {size[2]}" in unsaid["assumptions"]) is is_video


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"pipeline": "flux.1-deV2"}, 422, "Did you mean flux.1-dev"),
        ({"pipeline": {"recording": {"format": 9}}}, 422, "format 1"),
        ({"pipeline": {"model_index": {}}}, 422, "model_index and configs"),
        ({"workload": {"height": 1001, "width": 1024}}, 422, "multiple of 16"),
        ({"workload": {"height": 1024, "width": 1024, "steps": 4}}, 422, "steps"),
    ],
)
def test_a_wrong_question_is_told_why(
    client: TestClient[Any], changes: dict[str, object], status: int, words: str
) -> None:
    """The problem names what would be right."""
    answer = client.post("/v1/pipelines/fit", json={**_QUESTION, **changes})

    assert (answer.status_code, words in answer.text) == (status, True), answer.text
