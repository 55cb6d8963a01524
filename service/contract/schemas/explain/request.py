"""Request of POST /v1/explain."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.fields import Strict
from service.contract.schemas.fit import FitRequest
from service.contract.schemas.imports.launches import LaunchImportRequest


class ExplainRequest(Strict, frozen=True, kw_only=True):
    """A log, a message or a memory snapshot of a run that failed, and what ran where that is
    known.
    """

    content: Annotated[
        Annotated[str, Meta(min_length=1)] | UnsetType,
        Meta(description="The log or message, as text; the end of a log is enough."),
    ] = UNSET
    content_base64: Annotated[
        Annotated[str, Meta(min_length=1)] | UnsetType,
        Meta(description="The file in base64, in place of `content`: a pickled snapshot."),
    ] = UNSET
    question: Annotated[
        FitRequest | UnsetType,
        Meta(
            description=(
                "What ran, as POST /v1/fit takes it: the answer then has what was predicted beside "
                "what was read, and the remedies of this question on the memory that was there."
            )
        ),
    ] = UNSET
    launch: Annotated[
        LaunchImportRequest | UnsetType,
        Meta(
            description=(
                "What ran by its launch file, command or arguments, as POST /v1/launches/import "
                "takes it, in place of `question`."
            )
        ),
    ] = UNSET
