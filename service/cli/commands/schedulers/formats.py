"""Words of the formats that commands render jobs in."""

FORMATS = (
    "kubernetes",
    "dra",
    "kueue",
    "podgroup",
    "jobset",
    "trainjob",
    "lws",
    "rayjob",
    "rayservice",
    "llminferenceservice",
    "dynamo",
    "volcano",
    "kai",
    "hami",
    "runai",
    "slinky",
    "slurm",
    "ray",
    "skypilot",
    "dstack",
)
"""Words of ``service/formats/manifests/registry.py``, which a question alone need not load."""
