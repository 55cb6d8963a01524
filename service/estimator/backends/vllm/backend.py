"""vLLM as a backend."""

from service.estimator.values.backend import Backend, Task
from service.estimator.values.dtypes import DType
from service.estimator.values.engine_versions import Version
from service.estimator.values.workload import Quantization

OLDEST, NEWEST = Version(0, 6, 4), Version(0, 33, 0)
BACKEND = Backend(
    name="vllm",
    answers={Task.SERVE: "service.estimator.backends.vllm.answer"},
    weight_formats=(Quantization.FP8, Quantization.AWQ_INT4),
    cache_dtypes=(DType.FP8,),
    splits_replicas=True,
    sized_by_length=True,
    owns_cache=True,
    owns_kernels=True,
    counts_cuda_graphs=True,
    default_port=8000,
    newest_release=NEWEST,
)
