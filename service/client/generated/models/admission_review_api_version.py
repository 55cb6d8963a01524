from typing import Literal

AdmissionReviewApiVersion = Literal["admission.k8s.io/v1"]

ADMISSION_REVIEW_API_VERSION_VALUES: set[AdmissionReviewApiVersion] = {
    "admission.k8s.io/v1",
}


def check_admission_review_api_version(value: str) -> AdmissionReviewApiVersion:
    if value in ADMISSION_REVIEW_API_VERSION_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {ADMISSION_REVIEW_API_VERSION_VALUES!r}")
