from typing import Literal

EventAnswerEvent = Literal["plan", "progress", "sample", "status"]

EVENT_ANSWER_EVENT_VALUES: set[EventAnswerEvent] = {
    "plan",
    "progress",
    "sample",
    "status",
}


def check_event_answer_event(value: str) -> EventAnswerEvent:
    if value in EVENT_ANSWER_EVENT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {EVENT_ANSWER_EVENT_VALUES!r}")
