"""Requests and answers of scheduler hooks.

What a scheduler sends grows with its versions: unknown members of its documents are passed over.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from service.contract.schemas.fields import Answer, JsonObject
from service.usecases.hooks.decision import Mode

HookMode = Annotated[
    Mode,
    Meta(
        description=(
            "What may be done about a job that does not fit: `warn` lets it pass and says so, "
            "`refuse` refuses it, `change` gives it the GPUs that it needs, and refuses it where "
            "their number cannot be changed."
        ),
        examples=["warn"],
    ),
]


class AdmissionUser(Struct, frozen=True, kw_only=True):
    """Whoever sends an object to Kubernetes."""

    username: Annotated[str, Meta(description="Name of the user or service account.")] = ""


class AdmissionRequest(Struct, frozen=True, kw_only=True, rename="camel"):
    """An object on its way into Kubernetes (admission.k8s.io/v1)."""

    uid: Annotated[str, Meta(description="Id of the review, which its answer repeats.")]
    operation: Annotated[str, Meta(description="`CREATE`, `UPDATE`, `DELETE` or `CONNECT`.")] = (
        "CREATE"
    )
    namespace: Annotated[str, Meta(description="Namespace of the object.")] = ""
    object: Annotated[
        JsonObject | UnsetType | None, Meta(description="The object; null where it is deleted.")
    ] = UNSET
    user_info: Annotated[AdmissionUser | UnsetType, Meta(description="Who sends it.")] = UNSET
    dry_run: Annotated[
        bool | UnsetType | None, Meta(description="Whether nothing will be stored; null is no.")
    ] = UNSET


class AdmissionReview(Struct, frozen=True, kw_only=True, rename="camel"):
    """A question of Kubernetes to an admission webhook."""

    api_version: Annotated[Literal["admission.k8s.io/v1"], Meta(description="The one there is.")]
    kind: Annotated[Literal["AdmissionReview"], Meta(description="The one there is.")]
    request: Annotated[AdmissionRequest, Meta(description="The object, and who sends it.")]


class AdmissionStatus(Answer, frozen=True, kw_only=True):
    """Reason of a refusal."""

    code: Annotated[int, Meta(description="HTTP status that its sender gets.")]
    message: Annotated[str, Meta(description="The line that its sender reads.")]


class AdmissionResponse(Answer, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Outcome of a review."""

    uid: Annotated[str, Meta(description="Id of the review.")]
    allowed: Annotated[bool, Meta(description="Whether it is let in.")]
    warnings: Annotated[
        Sequence[str], Meta(description="Lines that its sender reads: what was found or changed.")
    ] = ()
    status: Annotated[
        AdmissionStatus | None, Meta(description="Why it is refused; null where it is not.")
    ] = None
    patch_type: Annotated[
        Literal["JSONPatch"] | None, Meta(description="Kind of the patch; null without one.")
    ] = None
    patch: Annotated[
        str | None,
        Meta(description="Changes of the object (RFC 6902) in base64; null without any."),
    ] = None
    audit_annotations: Annotated[
        dict[str, str] | UnsetType,
        Meta(
            description=(
                "What the cluster's audit log keeps of it: `decision` (the line), `verdict`, and "
                "the `gpu` that it is about; absent where it is nothing."
            )
        ),
    ] = UNSET


class AdmissionAnswer(Answer, frozen=True, kw_only=True, rename="camel"):
    """The review with its response."""

    api_version: Annotated[str, Meta(description="`admission.k8s.io/v1`.")]
    kind: Annotated[str, Meta(description="`AdmissionReview`.")]
    response: Annotated[AdmissionResponse, Meta(description="What becomes of the object.")]
