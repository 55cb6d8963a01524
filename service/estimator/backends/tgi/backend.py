"""TGI as a backend."""

from service.estimator.values.backend import Backend, Task
from service.estimator.values.dtypes import DType
from service.estimator.values.engine_versions import Version
from service.estimator.values.workload import Quantization

OLDEST, NEWEST = Version(2, 0), Version(3, 3, 5)
BACKEND = Backend(
    name="tgi",
    answers={Task.SERVE: "service.estimator.backends.tgi.answer"},
    weight_formats=(Quantization.AWQ_INT4,),
    cache_dtypes=(DType.FP8,),
    splits_replicas=True,
    sized_by_length=True,
    owns_cache=True,
    owns_kernels=True,
    default_port=80,
    newest_release=NEWEST,
)
