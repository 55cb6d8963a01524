"""SGLang as a backend."""

from service.estimator.values.backend import Backend, Task
from service.estimator.values.dtypes import DType
from service.estimator.values.engine_versions import Version
from service.estimator.values.workload import Quantization

OLDEST, NEWEST = Version(0, 4), Version(0, 5, 23)
BACKEND = Backend(
    name="sglang",
    answers={Task.SERVE: "service.estimator.backends.sglang.answer"},
    weight_formats=(Quantization.FP8, Quantization.AWQ_INT4),
    cache_dtypes=(DType.FP8,),
    splits_replicas=True,
    sized_by_length=True,
    starts_with_any_room=True,
    owns_cache=True,
    owns_kernels=True,
    counts_cuda_graphs=True,
    default_port=30000,
    newest_release=NEWEST,
)
