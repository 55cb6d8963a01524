"""Encoding of messages as bytes.

They are a notification's payload, a probe's request on stdin, and its lines on stdout.
"""

import zlib
from uuid import UUID

import msgspec

from service.base.typed import convert, get_decoder
from service.jobs.contract import JobPayload, ProbeLine, ProbeRequest, ProtocolError

MAX_DATA_BYTES = 1 << 16
"""Of a notification, which has about a hundred."""
_NO_CALL = b"[]"


def encode_request(request: ProbeRequest) -> bytes:
    """Return the request as one JSON document."""
    return msgspec.json.encode(request)


def decode_request(body: bytes) -> ProbeRequest:
    """Parse what ``encode_request`` wrote."""
    try:
        request: ProbeRequest = get_decoder(ProbeRequest).decode(body)
    except msgspec.MsgspecError as error:
        message = f"not a probe request: {error}"
        raise ProtocolError(message) from error
    return request


def decode_payload(arguments: list[object]) -> JobPayload:
    """Parse the arguments of a notification.

    They are a job id and an attempt, nothing else.
    """
    try:
        job_id, attempt = convert(arguments, tuple[UUID, int])
    except msgspec.ValidationError as error:
        message = f"not a notification's payload: {error}"
        raise ProtocolError(message) from error
    return JobPayload(job_id=job_id, attempt=attempt)


def encode_line(line: ProbeLine) -> bytes:
    """Return one message as one JSON line, newline included."""
    return msgspec.json.encode(line) + b"\n"


def decode_line(line: bytes) -> ProbeLine:
    """Parse one line of a probe's stdout."""
    try:
        message: ProbeLine = get_decoder(ProbeLine).decode(line)
    except msgspec.MsgspecError as error:
        reason = f"not a line of the probe protocol: {error}"
        raise ProtocolError(reason) from error
    return message


def unpack_data(data: bytes) -> bytes:
    """Return a job's data unpacked.

    Where it would be more than a notification has, it is that of a job without a call.
    """
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(data, MAX_DATA_BYTES)
    except zlib.error:
        return data if len(data) <= MAX_DATA_BYTES else _NO_CALL
    return unpacked if unpacker.eof else _NO_CALL
