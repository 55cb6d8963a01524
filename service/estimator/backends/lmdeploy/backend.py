"""LMDeploy as a backend."""

from service.estimator.values.backend import Backend, Task
from service.estimator.values.engine_versions import Version
from service.estimator.values.workload import Quantization

OLDEST, NEWEST = Version(0, 5), Version(0, 16)
BACKEND = Backend(
    name="lmdeploy",
    answers={Task.SERVE: "service.estimator.backends.lmdeploy.answer"},
    weight_formats=(Quantization.AWQ_INT4,),
    splits_replicas=True,
    starts_with_any_room=True,
    owns_cache=True,
    owns_kernels=True,
    default_port=23333,
    newest_release=NEWEST,
)
