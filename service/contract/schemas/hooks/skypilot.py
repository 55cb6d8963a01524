"""Requests and answers of SkyPilot's RESTful admin policy.

Members have the names of ``sky.admin_policy`` (0.14.1), and unknown ones are passed over.
"""

from typing import Annotated

from msgspec import Meta, Struct

from service.contract.schemas.fields import Answer


class SkyPilotRequest(Struct, frozen=True, kw_only=True):
    """A task that somebody launches."""

    task: Annotated[str, Meta(description="The task as YAML.")]
    skypilot_config: Annotated[str, Meta(description="SkyPilot's settings as YAML.")] = "{}"
    request_name: Annotated[
        str, Meta(description="What is asked for, such as `launch` or `jobs.launch`.")
    ] = ""
    user: Annotated[
        str, Meta(description="Who asks, as YAML; empty where the client's machine asks.")
    ] = ""


class SkyPilotAnswer(Answer, frozen=True, kw_only=True):
    """The task as it is launched."""

    task: Annotated[str, Meta(description="The task as YAML.")]
    skypilot_config: Annotated[str, Meta(description="SkyPilot's settings, as they came.")]
