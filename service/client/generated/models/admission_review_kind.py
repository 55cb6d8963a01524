from typing import Literal

AdmissionReviewKind = Literal["AdmissionReview"]

ADMISSION_REVIEW_KIND_VALUES: set[AdmissionReviewKind] = {
    "AdmissionReview",
}


def check_admission_review_kind(value: str) -> AdmissionReviewKind:
    if value in ADMISSION_REVIEW_KIND_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {ADMISSION_REVIEW_KIND_VALUES!r}")
