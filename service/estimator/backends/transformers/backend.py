"""The transformers library as a backend: its trainer, and its ``generate``."""

from service.estimator.values.backend import Backend, Task
from service.estimator.values.engine_versions import Version
from service.estimator.values.workload import Quantization

OLDEST, NEWEST = Version(4, 30), Version(5, 23)
BACKEND = Backend(
    name="transformers",
    answers={
        Task.TRAIN: "service.estimator.backends.transformers.training",
        Task.SERVE: "service.estimator.backends.transformers.answer",
    },
    weight_formats=(Quantization.INT8, Quantization.NF4),
    splits_replicas=True,
    newest_release=NEWEST,
)
