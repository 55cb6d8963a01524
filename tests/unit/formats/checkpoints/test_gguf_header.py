"""Headers of GGUF files: what the gguf package writes is read to the byte, and nothing hostile."""

import struct
from io import BytesIO

import pytest

from service.estimator.model.weights.ggml import BLOCKS, GgmlType
from service.estimator.values.errors import InvalidInputError
from service.formats.checkpoints.gguf_document import GgufModel, join_headers
from service.formats.checkpoints.gguf_header import (
    MAX_HEADER_BYTES,
    MAX_KEYS,
    MAX_TENSORS,
    MAX_TEXT_BYTES,
    parse_gguf_header,
)
from tests.unit.formats.checkpoints.files import (
    FOLDER,
    array,
    header,
    key,
    list_models,
    read_expected,
    read_file,
    read_model,
    tensor,
    text,
)


def test_every_type_has_the_bytes_of_the_package() -> None:
    """The data section of a file with one tensor of each type is what is behind its header."""
    expected, found = read_expected()["types"], read_file("types")

    assert {name.value: [b.elements, b.bytes] for name, b in BLOCKS.items()} == expected["types"]
    assert {tensor.type for tensor in found.tensors} == set(GgmlType)
    assert sum(tensor.bytes for tensor in found.tensors) == expected["bytes"]
    assert found.header_bytes + found.data_bytes == (FOLDER / "types.gguf").stat().st_size


@pytest.mark.parametrize("name", list_models())
def test_a_models_tensors_sum_to_the_packages_bytes(name: str) -> None:
    """Of 38 models with tensors of seven types, each sum is equal to the byte."""
    expected, found = read_expected()[name], read_model(name)

    assert found.total_bytes == expected["bytes"]
    assert sum(tensor.num_elements for tensor in found.tensors) == expected["elements"]
    assert len(found.tensors) == expected["tensors"]
    assert not any(name.startswith("tokenizer.") for name in found.metadata)


def test_a_document_is_read_back_as_the_same_model() -> None:
    """What a sender posts stands for the file."""
    model = read_model("mixtral")

    assert GgufModel.parse(model.describe()) == model


def test_parts_of_a_split_file_are_one_model() -> None:
    """All parts are needed, once, and in their order."""
    parts = [read_file(f"split-{number:05}-of-00003") for number in (1, 2, 3)]
    expected = read_expected()["split"]

    model = join_headers(parts)

    assert (model.total_bytes, len(model.tensors)) == (expected["bytes"], expected["tensors"])
    for wrong in (parts[:2], [parts[1], parts[0], parts[2]], [parts[0], parts[0], parts[2]]):
        with pytest.raises(InvalidInputError, match="3 parts"):
            join_headers(wrong)


def test_texts_of_a_vocabulary_are_passed_over() -> None:
    """A header of thousands of tokens is read past them to its tensors."""
    tokens = array(8, 5000, b"".join(text(f"token {index}") for index in range(5000)))
    scores = array(6, 5000, struct.pack("<5000f", *range(5000)))

    found = parse_gguf_header(
        header(
            [key("tokenizer.ggml.tokens", tokens), key("tokenizer.ggml.scores", scores)],
            [tensor("a", [32, 2], 8)],
        )
    )

    assert found.metadata == {}
    assert [(t.name, t.type, t.shape, t.bytes) for t in found.tensors] == [
        ("a", GgmlType.Q8_0, (32, 2), 68)
    ]


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (BytesIO(b"PK\3\4 and so on"), "does not begin with GGUF"),
        (BytesIO(b""), "ends within its header"),
        (header([], [], version=1), "version 1"),
        (header([], [], version=int.from_bytes(b"\0\0\0\3", "little")), "big-endian"),
        (BytesIO(b"GGUF" + struct.pack("<IQQ", 3, MAX_TENSORS + 1, 0)), "tensors; at most"),
        (BytesIO(b"GGUF" + struct.pack("<IQQ", 3, 2**63, 0)), "tensors; at most"),
        (BytesIO(b"GGUF" + struct.pack("<IQQ", 3, 0, MAX_KEYS + 1)), "keys; at most"),
        (header([struct.pack("<Q", 2**60)]), "bytes in a text"),
        (header([text("a") + struct.pack("<IQ", 8, MAX_TEXT_BYTES + 1)]), "bytes in a text"),
        (header([text("a") + struct.pack("<I", 77)]), "unknown type 77"),
        (header([text("a") + struct.pack("<IIQ", 9, 9, 1)]), "array of arrays"),
        (header([text("a") + struct.pack("<IIQ", 9, 8, 2**62)]), "items in an array"),
        (header([text("a") + struct.pack("<IIQQ", 9, 8, 9, 2**40)]), "a text of"),
        (header([text("a") + struct.pack("<IIQ", 9, 0, MAX_HEADER_BYTES)]), "ends within"),
        (header([key("a", 1), key("a", 2)]), "'a' comes twice"),
        (header([text("a") + struct.pack("<IQ", 8, 2) + b"\xff\xfe"]), "no UTF-8"),
        (header([key("a", "b\0c")]), "U+0000"),
        (header([key("general.alignment", 48)]), "power of two"),
        (header([], [tensor("a", [])]), "0 dimensions"),
        (header([], [tensor("a", [1] * 5)]), "5 dimensions"),
        (header([], [tensor("a", [2**40, 2**40])]), "the shape"),
        (header([], [tensor("a", [0])]), "the shape"),
        (header([], [tensor("a", [33], 8)]), "no whole blocks of 32"),
        (header([], [tensor("a", [32], 4)]), "unknown type 4"),
        (header([], [tensor("a", [8]), tensor("a", [8], offset=32)]), "the same name"),
        (header([], [tensor("a", [8]), tensor("b", [8])]), "b begins at 0, where 32 is next"),
        (header([], [tensor("a", [8], offset=2**50)]), "where 0 is next"),
        (header([key("a", 1)], [tensor("a", [8])[:-3]]), "ends within its header"),
    ],
)
def test_hostile_bytes_are_refused_in_words(stream: BytesIO, reason: str) -> None:
    """Counts, lengths, depth, sizes and places are checked before anything is made of them."""
    with pytest.raises(InvalidInputError) as refused:
        parse_gguf_header(stream)

    assert reason in refused.value.message


def test_a_header_is_cut_off_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that goes on for ever is left where the limit is."""
    monkeypatch.setattr("service.formats.checkpoints.gguf_header.MAX_HEADER_BYTES", 1000)
    endless = header([key("a", array(0, 900, bytes(900))), key("b", array(0, 900, bytes(900)))])

    with pytest.raises(InvalidInputError, match="longer than 1,000 bytes"):
        parse_gguf_header(endless)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"metadata": {}, "tensors": []}, "tensors"),
        ({"metadata": [], "tensors": []}, ""),
        ({"metadata": {}, "tensors": [], "more": 1}, "more"),
        ({"metadata": {}, "tensors": [{"name": "a"}]}, "tensors[0]"),
        (
            {"metadata": {}, "tensors": [{"name": "a", "type": "Q9_Z", "shape": [32]}]},
            "tensors[0].type",
        ),
        (
            {"metadata": {}, "tensors": [{"name": "a", "type": "F32", "shape": [True]}]},
            "tensors[0].shape",
        ),
        (
            {"metadata": {}, "tensors": [{"name": "a", "type": "F32", "shape": [1]}] * 2},
            "tensors",
        ),
    ],
)
def test_a_document_that_is_none_names_its_fault(document: dict[str, object], field: str) -> None:
    """What a sender got wrong is pointed at."""
    with pytest.raises(InvalidInputError) as refused:
        GgufModel.parse(document)

    assert refused.value.field == field
