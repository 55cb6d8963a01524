from typing import Literal

HowManyFormat = Literal[
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

HOW_MANY_FORMAT_VALUES: set[HowManyFormat] = {
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


def check_how_many_format(value: str) -> HowManyFormat:
    if value in HOW_MANY_FORMAT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {HOW_MANY_FORMAT_VALUES!r}")
