from typing import Literal

HowManyRequestFormatItem = Literal[
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

HOW_MANY_REQUEST_FORMAT_ITEM_VALUES: set[HowManyRequestFormatItem] = {
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


def check_how_many_request_format_item(value: str) -> HowManyRequestFormatItem:
    if value in HOW_MANY_REQUEST_FORMAT_ITEM_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {HOW_MANY_REQUEST_FORMAT_ITEM_VALUES!r}")
