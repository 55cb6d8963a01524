"""Models on a hub: three requests, a pinned commit, and nothing that leads anywhere else."""

import json
from typing import Any

import httpx
import pytest

from service.base.hub_errors import (
    HubContentError,
    HubRefusedError,
    HubUnavailableError,
)
from service.usecases.hub import hub as hub_module
from service.usecases.hub.values import HubReference
from tests.unit.formats.checkpoints.files import FOLDER, read_model
from tests.unit.usecases.hub.fake_hub import (
    COMMIT,
    CONFIG,
    MODEL,
    PARAMETERS,
    SECRET,
    TOKEN,
    FakeHub,
    make_repository,
    make_safetensors,
    make_wide_safetensors,
    read_refusal,
)

LONG = "x" * 20_000
"""A name that a file may hold and nobody reads to its end."""


def test_a_model_takes_three_requests() -> None:
    """Its commit, its config and the header of its file, each at that commit and from one host."""
    fake = FakeHub()

    model = fake.make().fetch(MODEL)

    assert [request.url.path for request in fake.requests] == [
        "/api/models/org/name/revision/main",
        f"/org/name/resolve/{COMMIT}/config.json",
        f"/org/name/resolve/{COMMIT}/model.safetensors",
    ]
    assert set(fake.hosts) == {"huggingface.co"}
    assert model.source == {"hf_config": CONFIG}
    assert list(model.header or ()) == ["all"]
    assert model.origin == f"org/name at {COMMIT}"


def test_tensors_are_never_read() -> None:
    """A header is asked for by its range, and a longer one by a second range alone."""
    many = {f"tensor_{index:05}": 1 for index in range(3000)}
    fake = FakeHub(make_repository(model__safetensors=make_safetensors(**many) + bytes(10**6)))

    model = fake.make().fetch(MODEL)

    ranges = [request.headers.get("range") for request in fake.requests]
    assert ranges[:3] == [None, None, "bytes=0-99999"]
    assert len(ranges) == 4
    assert len(model.header or ()) == 3000


def test_an_index_stands_for_many_files() -> None:
    """Of a sharded model the index is read, and no shard."""
    index = {"metadata": {"total_size": 2 * PARAMETERS}, "weight_map": {"a": "b"}}
    files = make_repository() | {"model.safetensors.index.json": json.dumps(index).encode()}
    fake = FakeHub(files)

    model = fake.make().fetch(MODEL)

    assert (model.index, model.header, len(fake.requests)) == (index, None, 3)


def test_the_quantisation_beside_a_config_counts() -> None:
    """ModelOpt writes a file of its own."""
    files = make_repository() | {"hf_quant_config.json": b'{"quantization": {"quant_algo": "FP8"}}'}

    model = FakeHub(files).make().fetch(MODEL)

    config: Any = model.source["hf_config"]
    assert config["quantization_config"] == {"quantization": {"quant_algo": "FP8"}}


def test_a_gguf_file_is_read_by_ranges() -> None:
    """The only one of a repository is its model; a projector beside it is not."""
    content = (FOLDER / "mixtral.gguf").read_bytes()
    fake = FakeHub({"m-Q4_K_M.gguf": content, "mmproj-m.gguf": b"GGUF"})

    model = fake.make().fetch(MODEL)

    assert model.source == {"gguf": read_model("mixtral").describe()}
    assert model.origin.endswith(f"{COMMIT}, m-Q4_K_M.gguf")
    assert fake.requests[1].headers["range"].startswith("bytes=0-")


def test_all_parts_of_a_split_file_are_read() -> None:
    """Any part names the file."""
    names = [f"split-{number:05}-of-00003.gguf" for number in (1, 2, 3)]
    fake = FakeHub({name: (FOLDER / name).read_bytes() for name in names})

    model = fake.make().fetch(HubReference(repository="org/name", file=names[1]))

    found: Any = model.source["gguf"]
    assert len(found["tensors"]) == 5
    assert model.file == names[0]


def test_several_files_are_a_question() -> None:
    """The refusal names them."""
    content = (FOLDER / "llama.gguf").read_bytes()
    fake = FakeHub({"a-Q4_0.gguf": content, "a-Q8_0.gguf": content})

    error = read_refusal(fake)

    assert "name one as file, such as a-Q4_0.gguf, a-Q8_0.gguf" in error.detail
    assert fake.make().fetch(HubReference(repository="org/name", file="a-Q8_0.gguf")).file


@pytest.mark.parametrize(
    "files",
    [
        {"adapter_config.json": json.dumps({"r": 8, "target_modules": LONG}).encode()},
        {"adapter_config.json": json.dumps({"target_modules": [LONG] * 99}).encode()},
        {"adapter_config.json": json.dumps({"base_model_name_or_path": LONG}).encode()},
        {"model_index.json": json.dumps({LONG: ["a", LONG], "_class_name": LONG}).encode()},
        {"model_index.json": json.dumps({f"a{n}": ["a", "b"] for n in range(9_999)}).encode()},
        {f"{LONG}-{n}.gguf": b"" for n in range(20)},
        {f"{LONG}-00001-of-00002.gguf": b""},
        make_repository(model__safetensors=make_safetensors(**{LONG: 10**400})),
    ],
)
def test_a_refusal_repeats_little_of_a_file(files: dict[str, bytes]) -> None:
    """Files have up to 32 MB; what is said of them stays something that a person reads."""
    assert len(read_refusal(FakeHub(files)).detail) < 4_000


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"README.md": b"x"}, "neither a config.json nor a GGUF file"),
        (
            {
                "adapter_config.json": b'{"r": 8, "target_modules": ["v", "q"], '
                b'"base_model_name_or_path": "org/base", "peft_type": "LORA"}'
            },
            "adapter (rank 8; targets q, v) of org/base",
        ),
        (
            {"model_index.json": b'{"_class_name": "FluxPipeline", "vae": ["diffusers", "Auto"]}'},
            "FluxPipeline (vae (Auto)): `headroom generate`",
        ),
        (make_repository(config__json=b"<html>"), "is not JSON"),
        (make_repository(config__json=b"[1]"), "no JSON object"),
        (make_repository(config__json=b'{"a": ' + b"[" * 99 + b"]" * 99 + b"}"), "levels"),
        (make_repository(model__safetensors=b"\xff" * 8), "its header would have"),
        (make_repository(model__safetensors=b"\x40" + bytes(7) + b"{"), "ends within"),
        (make_repository(model__safetensors=make_safetensors(a=10**400)), "is no tensor of"),
        (make_repository(model__safetensors=make_wide_safetensors()), "more elements"),
        ({"a.gguf": b"GGUF\x63\0\0\0"}, "version 99"),
        ({"a.gguf": b"GG"}, "ends within its header"),
        ({"a-00001-of-00002.gguf": b"GGUF"}, "no GGUF file a-00002-of-00002.gguf"),
    ],
)
def test_what_is_no_model_is_said_in_words(files: dict[str, bytes], words: str) -> None:
    """Each answer says what is there."""
    error = read_refusal(FakeHub(files))

    assert isinstance(error, HubContentError)
    assert words in error.detail


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (401, "RepoNotFound", "nobody without a token"),
        (401, "GatedRepo", "is gated"),
        (403, "GatedRepo", "is gated"),
        (403, "", "is gated"),
        (404, "RepoNotFound", "there is no org/name on the hub"),
        (404, "RevisionNotFound", "no such revision"),
    ],
)
def test_the_hubs_refusals_say_what_to_do(status: int, code: str, words: str) -> None:
    """Its status goes along, and the token does not."""
    answer = httpx.Response(status, headers={"x-error-code": code}, text=TOKEN)

    error = read_refusal(FakeHub(respond=lambda _request: answer), SECRET)

    assert isinstance(error, HubRefusedError)
    assert words in error.detail
    assert (error.status, error.extra["hub_status"]) == (422, status)


def test_a_name_without_an_address_is_said() -> None:
    """It is no fault of the question."""
    fake = FakeHub(addresses={"huggingface.co": ()})

    assert isinstance(read_refusal(fake), HubUnavailableError)


def test_a_commit_is_read_once() -> None:
    """The same question again asks nobody; another revision asks for its commit alone."""
    fake = FakeHub()
    hub = fake.make()

    first, second = hub.fetch(MODEL), hub.fetch(MODEL)
    hub.fetch(HubReference(repository="org/name", revision="v1/beta"))

    assert first is second
    assert [request.url.raw_path for request in fake.requests[3:]] == [
        b"/api/models/org/name/revision/v1%2Fbeta"
    ]


def test_what_is_kept_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first model goes for the second; one that is too large displaces none."""
    monkeypatch.setattr(hub_module, "MAX_KEPT_BYTES", 1_500)
    one, two, large = (HubReference(repository=f"org/{name}") for name in ("one", "two", "large"))
    fake = FakeHub(make_repository(config__json=CONFIG | {"more": "x" * 500}))
    hub = fake.make()

    first, second = hub.fetch(one), hub.fetch(two)
    assert hub.fetch(two) is second
    fake.files = make_repository(config__json=CONFIG | {"more": "x" * 2_000})
    hub.fetch(large)

    assert hub.fetch(two) is second
    assert hub.fetch(one) is not first
