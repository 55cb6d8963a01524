from typing import Literal

MeasurementAnswerSource = Literal["import", "probe", "recording"]

MEASUREMENT_ANSWER_SOURCE_VALUES: set[MeasurementAnswerSource] = {
    "import",
    "probe",
    "recording",
}


def check_measurement_answer_source(value: str) -> MeasurementAnswerSource:
    if value in MEASUREMENT_ANSWER_SOURCE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {MEASUREMENT_ANSWER_SOURCE_VALUES!r}")
