"""Bodies with files that strangers hand in, decoded and parsed.

They run in processes with limits (``service/api/computing/reading.py``), which take the file with
them: what they return has no more of it than its readings.
"""

from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType, structs

from service.api.http.decoding import MAX_BODY_BYTES, read_envelope, read_json
from service.base.errors import BodyTooLargeError
from service.contract.schemas.explain.request import ExplainRequest
from service.contract.schemas.fields import get_or_none
from service.contract.schemas.imports.measurements import ImportRequest
from service.contract.schemas.inventories.imports import ClusterImportRequest
from service.contract.to_answer.cluster_imports import read_import
from service.contract.to_question.contents import read_content
from service.contract.to_question.models import prefix_error_field
from service.formats.measured.detect import parse
from service.formats.measured.reading import Parsed
from service.usecases.clusters.imports import NewImport
from service.usecases.imports.imports import check_job_count
from service.usecases.postmortem.explain import explain_data
from service.usecases.postmortem.values import Explanation

FileRequest = TypeVar("FileRequest", ImportRequest, ExplainRequest)


def read_measured_file(body: bytes) -> tuple[ImportRequest, Parsed]:
    """Return an import without its file, and the file's readings."""
    payload = read_json(body, ImportRequest)
    with prefix_error_field(
        "content" if isinstance(payload.content_base64, UnsetType) else "content_base64"
    ):
        parsed = parse(read_content(payload), declared=get_or_none(payload.format))
        check_job_count(parsed)
    return _drop_file(payload), parsed


def read_listing(body: bytes) -> tuple[NewImport, bool]:
    """Return the nodes of an import, and whether to store them."""
    # What a tool prints is not walked for numbers and texts that cannot be stored: its readers take
    # what they know, and nothing else.
    payload = read_envelope(body, ClusterImportRequest)
    return read_import(payload), payload.apply


def read_failure(body: bytes) -> tuple[ExplainRequest, Explanation]:
    """Return a question without its file, and what that tells."""
    payload = read_json(body, ExplainRequest)
    with prefix_error_field("content"):
        explanation = explain_data(read_content(payload))
    return _drop_file(payload), explanation


def _drop_file(payload: FileRequest) -> FileRequest:
    """Return a request without its file, no larger than any other."""
    request = structs.replace(payload, content=UNSET, content_base64=UNSET)
    if len(msgspec.json.encode(request)) > MAX_BODY_BYTES:
        message = f"beside its file a request has at most {MAX_BODY_BYTES:,} bytes"
        raise BodyTooLargeError(message)
    return request
