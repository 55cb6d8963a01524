from typing import Literal

RenderFitName = Literal[
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

RENDER_FIT_NAME_VALUES: set[RenderFitName] = {
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


def check_render_fit_name(value: str) -> RenderFitName:
    if value in RENDER_FIT_NAME_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {RENDER_FIT_NAME_VALUES!r}")
