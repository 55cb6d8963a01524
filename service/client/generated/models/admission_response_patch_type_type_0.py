from typing import Literal

AdmissionResponsePatchTypeType0 = Literal["JSONPatch"]

ADMISSION_RESPONSE_PATCH_TYPE_TYPE_0_VALUES: set[AdmissionResponsePatchTypeType0] = {
    "JSONPatch",
}


def check_admission_response_patch_type_type_0(value: str) -> AdmissionResponsePatchTypeType0:
    if value in ADMISSION_RESPONSE_PATCH_TYPE_TYPE_0_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {ADMISSION_RESPONSE_PATCH_TYPE_TYPE_0_VALUES!r}")
