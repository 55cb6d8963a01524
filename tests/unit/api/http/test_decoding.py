"""Strict decoding: what is refused, with which status, path and hint."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from litestar.types import Scope
from msgspec import convert

from service.api.http.decoding import MAX_DEPTH, read_body
from service.base.errors import (
    InvalidRequestError,
    MalformedBodyError,
    ServiceError,
    UnstorableTextError,
    UnsupportedMediaTypeError,
)
from service.contract.schemas.fields import JsonObject, Strict
from service.contract.schemas.fit import FitRequest
from service.contract.schemas.operations import FieldError
from service.contract.to_question.workloads import read_workload

_WORKLOAD = {"task": "train", "sequence_length": 4096}
FIT: dict[str, Any] = {"model": "llama-2-7b", "workload": _WORKLOAD, "gpu": "A100-SXM4-80GB"}


def scope(
    *,
    content_type: bytes | None = b"application/json",
    content_encoding: bytes | None = None,
    query: bytes = b"",
) -> Scope:
    """Return as much of an ASGI scope as decoding reads."""
    said = {b"content-type": content_type, b"content-encoding": content_encoding}
    headers = [(name, value) for name, value in said.items() if value is not None]
    return {"headers": headers, "query_string": query}  # type: ignore[return-value]  # the rest is not read


def fit(body: object) -> FitRequest:
    """Decode a body as a fit request."""
    return read_body(scope(), json.dumps(body).encode(), FitRequest)


def changed(path: str, value: object) -> dict[str, Any]:
    """Return the good request with one value changed or added."""
    body: dict[str, Any] = json.loads(json.dumps(FIT))
    *parents, last = path.split(".")
    part = body
    for parent in parents:
        part = part.setdefault(parent, {})
    part[last] = value
    return body


def refusal(body: object) -> tuple[str, str, str | None]:
    """Return field, message and hint of the refusal of a body."""
    with pytest.raises(InvalidRequestError) as caught:
        fit(body)
    (error,) = convert(caught.value.extra["errors"], list[FieldError])
    return error.field, error.message, error.nearest


@pytest.mark.parametrize(
    ("path", "value", "nearest"),
    [
        ("gpus", "A100-SXM4-80GB", "gpu"),
        ("workload.micro_batch_sise", 1, "micro_batch_size"),
        ("workload.lora.rnk", 16, "rank"),
        ("workload.precision.param_dtyp", "bf16", "param_dtype"),
        ("layout.data_paralel", 8, "data_parallel"),
        ("gpu.memory_byte", 1, "memory_bytes"),
        ("model.hf_confg", {}, "hf_config"),
    ],
)
def test_unknown_field_is_refused_at_every_depth(path: str, value: object, nearest: str) -> None:
    """A misspelt field is named with its path and the nearest known name."""
    body = (
        changed(path.rpartition(".")[0], {})
        if path.partition(".")[0] in {"gpu", "model"} and "." in path
        else FIT
    )
    body = json.loads(json.dumps(body))
    part = body
    *parents, last = path.split(".")
    for parent in parents:
        part = part.setdefault(parent, {})
    part[last] = value

    field, message, hint = refusal(body)

    assert field == path
    assert hint == nearest
    assert "Did you mean" in message


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("workload.sequence_length", "4096", "expected an integer, got a string"),
        ("workload.sequence_length", 4096.0, "expected an integer, got a number"),
        ("workload.sequence_length", True, "expected an integer, got true or false"),
        ("workload.micro_batch_size", -1, "expected an integer >= 1; got -1"),
        ("workload.micro_batch_size", 10**30, "expected an integer <= 65536; got 1" + "0" * 30),
        ("workload.padding_mask", 1, "expected true or false, got an integer"),
        ("workload", 5, "expected an object, got an integer"),
        ("layout", None, "expected an object, got null"),
    ],
)
def test_wrong_kind_of_value_is_refused(path: str, value: object, expected: str) -> None:
    """A string is no number, a float and a truth value no integer, and the message says what was
    expected.
    """
    assert refusal(changed(path, value)) == (path, expected, None)


@pytest.mark.parametrize(
    ("path", "value", "nearest"),
    [
        ("workload.task", "trian", "train"),
        ("workload.attention", "flsh", "flash"),
        ("workload.precision", "bf16mixed", "bf16_mixed"),
        ("workload.optimizer", "adam_w", "adamw"),
        ("layout.sharding", "fsdp22", "fsdp2"),
    ],
)
def test_unknown_word_names_the_nearest(path: str, value: str, nearest: str) -> None:
    """A word outside a vocabulary is refused with the vocabulary and the nearest word."""
    field, message, hint = refusal(changed(path, value))

    assert (field, hint) == (path, nearest)
    assert "Known:" in message


@pytest.mark.parametrize(
    ("workload", "missing"),
    [
        ({"task": "train"}, ["sequence_length"]),
        ({"task": "serve"}, ["num_sequences", "prompt_tokens"]),
        ({"task": "serve", "num_sequences": 4}, ["prompt_tokens"]),
        ({"task": "serve", "inputs": {}}, ["num_sequences"]),
    ],
)
def test_missing_fields_are_all_named(workload: JsonObject, missing: list[str]) -> None:
    """What a request must say is named with its path, all of it at once."""
    with pytest.raises(InvalidRequestError) as refused:
        read_workload(fit(changed("workload", workload)).workload)

    errors = convert(refused.value.extra["errors"], list[FieldError])
    assert [error.field for error in errors] == [f"workload.{name}" for name in missing]


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", '"inf"', '"nan"', "1e400"])
def test_not_finite_is_no_number(literal: str) -> None:
    """Neither a literal nor a string stands for a number that is not finite."""
    body = json.dumps(
        changed("workload", {"task": "serve", "num_sequences": 1, "prompt_tokens": 1})
    ).replace('"prompt_tokens": 1', f'"prompt_tokens": 1, "gpu_memory_fraction": {literal}')

    with pytest.raises((InvalidRequestError, MalformedBodyError)):
        read_body(scope(), body.encode(), FitRequest)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"model": "\xff"}',
        b"\xef\xbb\xbf{}",
        b"{}x",
        b'{"model": "\\ud800"}',
        b'{"a": 1,}',
    ],
)
def test_not_json_is_400(body: bytes) -> None:
    """Broken syntax, broken UTF-8, a byte order mark and a lone surrogate are no JSON."""
    with pytest.raises(MalformedBodyError):
        read_body(scope(), body, FitRequest)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 2000, 100_000])
@pytest.mark.parametrize("brackets", [('{"a":', "}"), ("[", "]")])
def test_depth_bomb_is_400(depth: int, brackets: tuple[str, str]) -> None:
    """Nesting beyond the limit is refused whether or not the decoder would survive it, and whatever
    else is wrong.
    """
    opening, closing = brackets
    bomb = opening * depth + "1" + closing * depth
    in_config, unknown = (
        json.dumps(changed(*at)) for at in (("model", {"hf_config": {"x": "BOMB"}}), ("x", "BOMB"))
    )

    for body in (in_config, unknown, '"BOMB"'):
        with pytest.raises(MalformedBodyError, match="nested"):
            read_body(scope(), body.replace('"BOMB"', bomb).encode(), FitRequest)


def test_nul_never_passes() -> None:
    """A NUL is refused in a string with a pattern and in a free-form object, as value and as
    key.
    """
    assert refusal(changed("model", "a\0b"))[0] == "model"
    for config in ({"a": ["x\0"]}, {"a\0": 1}):
        with pytest.raises(UnstorableTextError):
            fit(changed("model", {"hf_config": config}))


def test_escaped_backslash_is_no_nul() -> None:
    r"""The six characters \u0000 as text are harmless."""
    assert fit(changed("model", {"hf_config": {"a": r"\u0000"}}))


@pytest.mark.parametrize("name", ["llama\n", " a", "a ", "", "x" * 257, "ä"])
def test_pattern_holds_to_the_last_character(name: str) -> None:
    """A name ends where its pattern says, also before a final newline."""
    assert refusal(changed("model", name))[0] == "model"


def test_integer_beyond_64_bits_is_refused_in_free_objects() -> None:
    """A config.json cannot bring in integers that no column holds."""
    with pytest.raises(InvalidRequestError, match=r"model\.hf_config\.vocab_size"):
        fit(changed("model", {"hf_config": {"vocab_size": 2**63}}))


def test_last_of_duplicate_keys_counts() -> None:
    """Duplicate keys are resolved as the OpenAPI document says."""
    twice = '"sequence_length": 1, "sequence_length": 2'
    body = json.dumps(FIT).replace('"sequence_length": 4096', twice)

    assert read_body(scope(), body.encode(), FitRequest).workload.sequence_length == 2  # type: ignore[union-attr]  # train


@pytest.mark.parametrize(
    "declared",
    [
        None,
        b"text/plain",
        b"application/x-www-form-urlencoded",
        b"application/json; charset=latin1",
    ],
)
def test_other_media_types_are_415(declared: bytes | None) -> None:
    """Only JSON in UTF-8 is read as JSON."""
    with pytest.raises(UnsupportedMediaTypeError):
        read_body(scope(content_type=declared), json.dumps(FIT).encode(), FitRequest)


def test_packed_bodies_are_415() -> None:
    """A coding is named, not taken for broken JSON nor passed over; identity is none."""
    body = json.dumps(FIT).encode()
    reason = "Content-Encoding is 'gzip'; send the body as it is"
    with pytest.raises(UnsupportedMediaTypeError, match=reason):
        read_body(scope(content_encoding=b"gzip"), body, FitRequest)

    assert read_body(scope(content_encoding=b"Identity"), body, FitRequest).gpu == FIT["gpu"]


@pytest.mark.parametrize(
    "declared", [b"application/json", b"application/json; charset=utf-8", b"Application/JSON"]
)
def test_json_is_read_however_it_is_written(declared: bytes) -> None:
    """Parameters and case of the media type do not matter."""
    read = read_body(scope(content_type=declared), json.dumps(FIT).encode(), FitRequest)
    assert read.model == "llama-2-7b"


class Free(Strict, frozen=True, kw_only=True):
    """One free-form object."""

    value: JsonObject


JSON_VALUES = st.recursive(
    st.sampled_from([None, False, True])
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=20,
)


@given(body=JSON_VALUES)
def test_any_json_is_read_or_refused(body: object) -> None:
    """No JSON value makes the decoder do anything but answer or refuse."""
    raw = json.dumps({"value": body}).encode()
    with contextlib.suppress(MalformedBodyError, InvalidRequestError):
        assert read_body(scope(), raw, Free).value == body


@given(raw=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    """No bytes make the decoder do anything but answer or refuse."""
    with pytest.raises(ServiceError) as caught:
        read_body(scope(), raw, FitRequest)

    assert caught.value.status in {400, 422}
