from typing import Literal

PlanRequestFormatItem = Literal[
    "disaggregatedset",
    "dra",
    "dstack",
    "dynamo",
    "hami",
    "jobset",
    "kai",
    "kubernetes",
    "kueue",
    "llminferenceservice",
    "lws",
    "podgroup",
    "ray",
    "rayjob",
    "rayservice",
    "runai",
    "skypilot",
    "slinky",
    "slurm",
    "trainjob",
    "volcano",
]

PLAN_REQUEST_FORMAT_ITEM_VALUES: set[PlanRequestFormatItem] = {
    "disaggregatedset",
    "dra",
    "dstack",
    "dynamo",
    "hami",
    "jobset",
    "kai",
    "kubernetes",
    "kueue",
    "llminferenceservice",
    "lws",
    "podgroup",
    "ray",
    "rayjob",
    "rayservice",
    "runai",
    "skypilot",
    "slinky",
    "slurm",
    "trainjob",
    "volcano",
}


def check_plan_request_format_item(value: str) -> PlanRequestFormatItem:
    if value in PLAN_REQUEST_FORMAT_ITEM_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {PLAN_REQUEST_FORMAT_ITEM_VALUES!r}")
