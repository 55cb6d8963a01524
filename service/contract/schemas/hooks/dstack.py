"""Requests and answers of dstack's REST plugin.

Members have the names of ``dstack.plugins.builtin.rest_plugin`` (0.22.5), and unknown ones are
passed over.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from service.contract.schemas.fields import Answer, JsonObject


class DstackPolicy(StrEnum):
    """Policies of dstack, by what is applied."""

    RUN = "on_run_apply"
    FLEET = "on_fleet_apply"
    VOLUME = "on_volume_apply"
    GATEWAY = "on_gateway_apply"


DstackPolicyName = Annotated[
    DstackPolicy,
    Meta(description="What is applied. Only runs are judged.", examples=["on_run_apply"]),
]


class DstackRequest(Struct, frozen=True, kw_only=True):
    """A specification that somebody applies."""

    user: Annotated[str, Meta(description="Name of the user.")] = ""
    project: Annotated[str, Meta(description="Name of the project.")] = ""
    spec: Annotated[JsonObject, Meta(description="The specification, such as a RunSpec.")]


class DstackAnswer(Answer, frozen=True, kw_only=True):
    """The specification as it is applied."""

    spec: Annotated[JsonObject, Meta(description="The specification, changed or as it came.")]
    error: Annotated[str | None, Meta(description="Why it is refused; null where it is not.")] = (
        None
    )
