from typing import Literal

RenderFitName = Literal[
    "dra",
    "hami",
    "jobset",
    "kai",
    "kubernetes",
    "kueue",
    "lws",
    "podgroup",
    "ray",
    "runai",
    "skypilot",
    "slinky",
    "slurm",
    "trainjob",
    "volcano",
]

RENDER_FIT_NAME_VALUES: set[RenderFitName] = {
    "dra",
    "hami",
    "jobset",
    "kai",
    "kubernetes",
    "kueue",
    "lws",
    "podgroup",
    "ray",
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
