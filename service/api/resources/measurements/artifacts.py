"""GET /v1/measurements/{id}/artifacts/{name}: a file of a measurement.

Streamed as it is stored or decompressed.
"""

import zlib
from collections.abc import Iterator
from typing import Any

from litestar import Request, get
from litestar.response.streaming import ASGIStreamingResponse
from litestar.types import ASGIApp

from service.api.http.dependencies import get_dependencies
from service.api.http.negotiation import is_gzip_accepted
from service.api.http.operation import STORED_PROBLEMS, Operation, Reply
from service.api.resources.measurements.shapes import read_measurement_id
from service.contract.schemas.fields import MeasurementId
from service.contract.schemas.measurements import ArtifactPath
from service.jobs.artifacts import FILE_NAMES
from service.usecases.jobs import artifacts

OCTETS = "application/octet-stream"
_GZIP_WINDOW = zlib.MAX_WBITS | 16
"""What tells zlib that a stream has gzip's header (zlib.h, inflateInit2)."""


@get(
    "/{id:str}/artifacts/{name:str}",
    sync_to_thread=True,
    operation=Operation(
        id="readArtifact",
        tag="measurements",
        summary="Download a file that a measurement kept.",
        description="`artifacts` of the measurement lists them, with bytes and SHA-256 of what is "
        "in them. Whoever accepts "
        "gzip gets the bytes as they are stored.",
        path={"id": MeasurementId, "name": ArtifactPath},
        replies={
            200: Reply(
                description="The file.",
                bodies=(bytes,),
                media_types=(OCTETS,),
                headers={"Content-Disposition": "What to save it as.", "Vary": "Accept-Encoding"},
            ),
        },
        problems=(404, 422, *STORED_PROBLEMS),
    ),
)
def read_artifact(request: Request[Any, Any, Any]) -> ASGIApp:
    """Download a file that a measurement kept."""
    sessions, job_id = get_dependencies(request).sessions, read_measurement_id(request)
    artifact = artifacts.read(sessions, job_id, str(request.path_params["name"]))
    packed = artifacts.iter_pieces(sessions, job_id, artifact)
    is_packed = is_gzip_accepted(request.headers.get("accept-encoding"))
    headers = {
        "content-disposition": f'attachment; filename="{FILE_NAMES[artifact.name]}"',
        "content-length": str(artifact.packed_bytes if is_packed else artifact.bytes),
        "vary": "Accept-Encoding",
        # It is what a worker wrote: nothing that a page should ever run or show.
        "x-content-type-options": "nosniff",
        "content-security-policy": "default-src 'none'; sandbox",
        "cache-control": "private, no-cache",
    }
    encoding = {"content-encoding": "gzip"} if is_packed else {}
    return ASGIStreamingResponse(
        iterator=packed if is_packed else decompress_gzip(packed),
        media_type=artifact.media_type,
        headers=headers | encoding,
    )


def decompress_gzip(packed: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the content of a gzip stream piece by piece.

    No more of it is in memory at once than a piece.
    """
    inflating = zlib.decompressobj(_GZIP_WINDOW)
    for piece in packed:
        remaining = piece
        while remaining:
            yield inflating.decompress(remaining, artifacts.PIECE_BYTES)
            remaining = inflating.unconsumed_tail
    yield inflating.flush()
