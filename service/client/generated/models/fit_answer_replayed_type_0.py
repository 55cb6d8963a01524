from typing import Literal

FitAnswerReplayedType0 = Literal["generations", "steps"]

FIT_ANSWER_REPLAYED_TYPE_0_VALUES: set[FitAnswerReplayedType0] = {
    "generations",
    "steps",
}


def check_fit_answer_replayed_type_0(value: str) -> FitAnswerReplayedType0:
    if value in FIT_ANSWER_REPLAYED_TYPE_0_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {FIT_ANSWER_REPLAYED_TYPE_0_VALUES!r}")
