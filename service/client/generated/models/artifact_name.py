from typing import Literal

ArtifactName = Literal["memory_snapshot"]

ARTIFACT_NAME_VALUES: set[ArtifactName] = {
    "memory_snapshot",
}


def check_artifact_name(value: str) -> ArtifactName:
    if value in ARTIFACT_NAME_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {ARTIFACT_NAME_VALUES!r}")
