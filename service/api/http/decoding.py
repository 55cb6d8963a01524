"""Strict decoding of JSON bodies and query strings.

What is refused comes with its path and the nearest known name.
"""

import re
from collections.abc import Iterable
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from litestar.types import Scope

from service.base.errors import (
    BodyTooLargeError,
    InvalidRequestError,
    MalformedBodyError,
    UnstorableTextError,
    UnsupportedMediaTypeError,
)
from service.base.typed import convert, get_decoder
from service.contract.to_question.validation_errors import explain, list_text_fields

MAX_BODY_BYTES = 1_000_000
MAX_DEPTH = 64
MAX_INTEGER = 2**63 - 1
MAX_QUERY_FIELDS = 100

_NUL = b"\\u0000"
_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,18})", re.ASCII)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,18})\.[0-9]{1,18}", re.ASCII)
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_LITERALS = {"true": True, "false": False, "null": None}

T = TypeVar("T", bound=msgspec.Struct)


def read_body(scope: Scope, body: bytes, kind: type[T]) -> T:
    """Decode a JSON body into ``kind``, strictly.

    No number is a string, no float an integer, no name unknown.
    """
    require_json(scope)
    return read_json(body, kind)


def read_json(body: bytes, kind: type[T]) -> T:
    """Decode JSON into ``kind`` and check free-form objects in it."""
    value = read_envelope(body, kind)
    check_free_values(body)
    return value


def read_envelope(body: bytes, kind: type[T]) -> T:
    """Decode JSON into ``kind`` without checking its raw parts.

    The caller checks them one by one.
    """
    try:
        value: T = get_decoder(kind).decode(body)
    except msgspec.ValidationError as error:
        raise explain(error, kind, _decode_plain(body)) from error
    except _NOT_JSON as error:
        raise _build_malformed_error(error) from error
    return value


def check_value_count(body: bytes, limit: int) -> None:
    """Refuse JSON of more values than a limit, before any is made."""
    if body.count(b",") > limit:
        message = f"the body has more than {limit:,} values; send it in parts"
        raise BodyTooLargeError(message)


def read_query(scope: Scope, kind: type[T]) -> T:
    """Decode the query string into ``kind``.

    A name that comes twice, or that is unknown, is refused.
    """
    values: dict[str, object] = {}
    for name, text in _parse_pairs(scope["query_string"]):
        if name in values:
            message = f"{name} is given twice; give it once"
            raise InvalidRequestError(message, errors=[{"field": name, "message": message}])
        values[name] = text if name in list_text_fields(kind) else _parse_literal(text)
    try:
        return convert(values, kind)
    except msgspec.ValidationError as error:
        raise explain(error, kind, values) from error


def _parse_pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        return (
            parse_qsl(
                query.decode("ascii"),
                keep_blank_values=True,
                strict_parsing=True,
                errors="strict",
                max_num_fields=MAX_QUERY_FIELDS,
            )
            if query
            else []
        )
    except ValueError as error:
        message = f"the query string is no list of name=value pairs in UTF-8: {error}"
        raise InvalidRequestError(message, errors=[{"field": "", "message": message}]) from error


def _parse_literal(text: str) -> object:
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    return _LITERALS.get(text, text)


def require_json(scope: Scope) -> None:
    """Refuse a body that is not declared as plain JSON.

    A content coding is refused too, since none is undone here (RFC 9110, sec. 15.5.16).
    """
    declared = b""
    for name, value in scope["headers"]:
        if name == b"content-type":
            declared = declared or value
        elif name == b"content-encoding" and value.strip().lower() not in {b"", b"identity"}:
            message = (
                f"Content-Encoding is {value.decode('latin-1')!r}; send the body as it is, without "
                "one"
            )
            raise UnsupportedMediaTypeError(message)
    if declared == b"application/json":
        return
    media_type, _, parameters = declared.partition(b";")
    charset = parameters.replace(b" ", b"").lower()
    if media_type.strip().lower() != b"application/json" or charset not in {
        b"",
        b"charset=utf-8",
        b'charset="utf-8"',
    }:
        received = declared.decode("latin-1") or "absent"
        message = f"Content-Type is {received!r}; send the body as application/json in UTF-8"
        raise UnsupportedMediaTypeError(message)


def _build_malformed_error(error: Exception) -> MalformedBodyError:
    match error:
        case RecursionError():
            return MalformedBodyError(f"the body is nested more than {MAX_DEPTH} levels deep")
        case UnicodeDecodeError():
            return MalformedBodyError(f"the body is not valid UTF-8: {error.reason}")
        case _:
            return MalformedBodyError(f"the body is not valid JSON: {error}")


def _decode_plain(body: bytes) -> object:
    """Decode a body without a schema.

    A body that is no JSON is refused as that first, whatever else it breaks. A large one, which
    would take up to 70 times its bytes, is not looked at again.
    """
    if len(body) > MAX_BODY_BYTES:
        return None
    try:
        document = msgspec.json.decode(body)
    except msgspec.ValidationError:
        return None  # a number that no float holds
    except _NOT_JSON as error:
        raise _build_malformed_error(error) from error
    if _can_be_deep(body):
        _require_shallow(document)
    return document


def _can_be_deep(body: bytes) -> bool:
    return body.count(b"{") + body.count(b"[") > MAX_DEPTH


def _require_shallow(document: object) -> None:
    level = [document]
    for _ in range(MAX_DEPTH + 1):
        level = [item for value in level for item in _iter_items(value)]
        if not level:
            return
    raise _build_malformed_error(RecursionError())


def _iter_items(value: object) -> Iterable[object]:
    match value:
        case dict():
            return value.values()
        case list():
            return value
        case _:
            return ()


def check_free_values(body: bytes) -> None:
    """Check free-form objects, whose values no schema bounds.

    Such as a config.json; ordinary bodies are not walked.
    """
    if _can_be_deep(body) or _NUL in body or _LONG_NUMBER.search(body):
        _walk(msgspec.json.decode(body))


def _walk(document: Any) -> None:  # noqa: ANN401 - any JSON value
    pending: list[tuple[str, int, Any]] = [("", 0, document)]
    while pending:
        path, depth, value = pending.pop()
        if depth > MAX_DEPTH:
            raise _build_malformed_error(RecursionError())
        match value:
            case dict():
                pending += [
                    (f"{path}.{key}".lstrip("."), depth + 1, item) for key, item in value.items()
                ]
                pending += [(path, depth, key) for key in value]
            case list():
                pending += [
                    (f"{path}[{index}]", depth + 1, item) for index, item in enumerate(value)
                ]
            case str() if "\0" in value:
                message = f"{path} holds the character U+0000, which no text may hold"
                raise UnstorableTextError(
                    message, errors=[{"field": path.replace("\0", "�"), "message": message}]
                )
            case int() if abs(value) > MAX_INTEGER:
                message = (
                    f"{path} is beyond {MAX_INTEGER}, the largest integer that this service reads"
                )
                raise InvalidRequestError(message, errors=[{"field": path, "message": message}])
            case _:
                pass
