from typing import Literal

DraftHead = Literal["eagle", "eagle3", "mtp"]

DRAFT_HEAD_VALUES: set[DraftHead] = {
    "eagle",
    "eagle3",
    "mtp",
}


def check_draft_head(value: str) -> DraftHead:
    if value in DRAFT_HEAD_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {DRAFT_HEAD_VALUES!r}")
