"""Models named by a place: directories, files, Ollama's store, the hub; headers alone are read."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from service.base.errors import InvalidRequestError
from service.cli.model_files.hub import read_hub
from service.cli.model_files.spelling import is_place, read_place
from service.estimator.values.errors import InvalidInputError
from tests.unit.formats.checkpoints.files import FOLDER, read_model
from tests.unit.usecases.hub.fake_hub import (
    COMMIT,
    CONFIG,
    PARAMETERS,
    TOKEN,
    FakeHub,
    make_safetensors,
)


def write(path: Path, **files: object) -> Path:
    """Write files into a directory; ``__`` in a name is a dot."""
    path.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (path / name.replace("__", ".")).write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("./model", True),
        ("../m", True),
        ("/srv/m", True),
        ("~/m", True),
        (".", True),
        ("m.gguf", True),
        ("model.safetensors", True),
        ("hub:org/name", True),
        ("llama-2-7b", False),
        ("meta-llama/Llama-3.1-8B", False),
        ("https://huggingface.co/Qwen/Qwen3-8B", False),
        ("llama3.2:3b", False),
        ("llama 3.1 8b", False),
        (None, False),
    ],
)
def test_a_place_is_told_from_a_name(text: str | None, expected: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A name of the catalogue is never taken for a directory of the same name."""
    assert is_place(text) is expected


def test_a_directory_is_its_config_and_its_header(tmp_path: Path) -> None:
    """The quantisation beside the config counts, and no tensor is read."""
    header = make_safetensors(all=PARAMETERS)
    quantization = {"quantization": {"quant_algo": "FP8"}}
    write(
        tmp_path, config__json=CONFIG, model__safetensors=header, hf_quant_config__json=quantization
    )

    found = read_place(f"{tmp_path}")

    assert found["hf_config"] == CONFIG | {"quantization_config": quantization}
    assert found["safetensors_header"] == {"all": {"dtype": "BF16", "shape": [PARAMETERS]}}
    assert found["origin"] == str(tmp_path)


def test_shards_are_one_header(tmp_path: Path) -> None:
    """Where all files are here their tensors are told, else the index."""
    index = {
        "metadata": {"total_size": 6},
        "weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"},
    }
    write(tmp_path, config__json=CONFIG, model__safetensors__index__json=index)
    (tmp_path / "m-1.safetensors").write_bytes(make_safetensors(a=1))

    part = read_place(str(tmp_path))
    (tmp_path / "m-2.safetensors").write_bytes(make_safetensors(b=2))
    complete = read_place(str(tmp_path))

    assert part["safetensors_index"] == index
    assert complete["safetensors_header"] == {
        "a": {"dtype": "BF16", "shape": [1]},
        "b": {"dtype": "BF16", "shape": [2]},
    }


@pytest.mark.parametrize("weight_map", [[], {"a": ["m-1.safetensors"]}])
def test_an_index_that_names_no_files_is_no_fault_of_the_command(
    tmp_path: Path, weight_map: object
) -> None:
    """What reads the question says so of the index, or the config is the model."""
    index = {"weight_map": weight_map}
    write(tmp_path, config__json=CONFIG, model__safetensors__index__json=index)

    assert read_place(str(tmp_path))["hf_config"] == CONFIG


def test_many_tensors_are_their_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question stays within what a server reads."""
    monkeypatch.setattr("service.cli.model_files.local._MAX_HEADER_BYTES", 10)
    write(tmp_path, config__json=CONFIG, model__safetensors=make_safetensors(a=3, b=4))

    found = read_place(str(tmp_path))

    assert found["safetensors_index"]["metadata"] == {"total_size": 14}


def test_a_gguf_file_is_read_in_all_its_parts(tmp_path: Path) -> None:
    """Any part names the file, and a missing one is named."""
    assert read_place(f"{FOLDER}/mixtral.gguf")["gguf"] == read_model("mixtral").describe()
    for number in (1, 2, 3):
        shutil.copy(FOLDER / f"split-{number:05}-of-00003.gguf", tmp_path)

    found = read_place(f"{tmp_path}/split-00002-of-00003.gguf")

    assert len(found["gguf"]["tensors"]) == 5
    (tmp_path / "split-00003-of-00003.gguf").unlink()
    with pytest.raises(InvalidInputError, match="no GGUF file split-00003-of-00003"):
        read_place(f"{tmp_path}/split-00001-of-00003.gguf")


def test_a_directory_of_one_gguf_file_is_that_file(tmp_path: Path) -> None:
    """A projector beside it is none."""
    shutil.copy(FOLDER / "llama.gguf", tmp_path / "m.gguf")
    write(tmp_path, **{"mmproj-m__gguf": b"GGUF"})

    assert read_place(str(tmp_path))["gguf"] == read_model("llama").describe()


def test_a_safetensors_file_needs_its_config(tmp_path: Path) -> None:
    """Alone its bytes are told; what is said of the file is none of its tensors."""
    header = b'{"__metadata__":{},"a":{"dtype":"U8","shape":[6],"data_offsets":[0,6]}}'
    content = len(header).to_bytes(8, "little") + header
    file = write(tmp_path, model__safetensors=content) / "model.safetensors"

    with pytest.raises(InvalidRequestError, match=r"6 bytes in 1 tensors.*config.json beside"):
        read_place(str(file))
    write(tmp_path, config__json=CONFIG)
    assert read_place(str(file))["hf_config"] == CONFIG


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "neither a config.json nor a GGUF file"),
        ({"a__gguf": b"nothing"}, "does not begin with GGUF"),
        ({"config__json": CONFIG, "model__safetensors": b"short"}, "shorter than its length"),
        ({"config__json": b"{"}, "is not JSON"),
        ({"config__json": b'{"a": ' + b"1" * 5000 + b"}"}, "is no JSON that is read"),
        ({"adapter_config__json": {"r": 8}}, "names no base_model_name_or_path"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, files: dict[str, Any], words: str) -> None:
    """Each refusal says what there is."""
    write(tmp_path, **files)

    with pytest.raises((InvalidRequestError, InvalidInputError), match=words):
        read_place(str(tmp_path))


def test_a_pipeline_is_told_with_the_bytes_of_its_parts(tmp_path: Path) -> None:
    """Components whose headers are here have their exact bytes."""
    index = {
        "_class_name": "FluxPipeline",
        "vae": ["diffusers", "Auto"],
        "unet": ["diffusers", "U"],
    }
    write(tmp_path, model_index__json=index)
    write(
        tmp_path / "vae",
        x__safetensors=make_safetensors(a=1000),
        y__safetensors=make_safetensors(b=1),
    )

    with pytest.raises(InvalidRequestError, match=r"vae \(Auto, 2,002 bytes\), unet \(U\)"):
        read_place(str(tmp_path))


@pytest.mark.parametrize("text", ["/nowhere/at/all", "./none.gguf"])
def test_a_place_that_is_not_there_is_said(text: str) -> None:
    """It is not looked up in the catalogue."""
    with pytest.raises(InvalidRequestError, match="there is no file or directory"):
        read_place(text)


def test_ollamas_models_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest leads to the blob; a name that is not there is left to the catalogue."""
    digest = "a" * 64
    write(tmp_path / "blobs")
    shutil.copy(FOLDER / "llama.gguf", tmp_path / "blobs" / f"sha256-{digest}")
    layers = [
        {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "b" * 64},
        {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"},
    ]
    for place in ("registry.ollama.ai/library/llama3.2", "registry.ollama.ai/me/mine"):
        folder = write(tmp_path / "manifests" / place)
        (folder / "3b").write_text(json.dumps({"layers": layers}))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))

    found = read_place("llama3.2:3b")

    assert found["gguf"] == read_model("llama").describe()
    assert found["origin"] == "Ollama's llama3.2:3b"
    assert is_place("me/mine:3b")
    assert not is_place("llama3.2:70b")
    assert not is_place("library/..:x")


def test_a_hub_is_asked_where_the_user_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the token of the environment, and pinned to the commit."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    fake = FakeHub()

    found = read_hub("org/name@v1", hub=fake.make())

    assert found["hf_config"] == CONFIG
    assert list(found["safetensors_header"]) == ["all"]
    assert found["origin"] == f"org/name at {COMMIT}"
    assert fake.requests[0].url.path.endswith("/revision/v1")
    assert set(fake.tokens) == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize("text", ["", "a/b/c", "../x", "org/name@", "org/name#"])
def test_what_is_no_hub_id_asks_nobody(text: str) -> None:
    """The refusal shows the spelling."""
    fake = FakeHub()

    with pytest.raises(InvalidRequestError, match="say hub:org/name"):
        read_hub(text, hub=fake.make())

    assert fake.requests == []
