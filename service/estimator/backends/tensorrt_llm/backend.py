"""TensorRT-LLM as a backend."""

from service.estimator.values.backend import Backend, Task
from service.estimator.values.dtypes import DType
from service.estimator.values.engine_versions import Version
from service.estimator.values.workload import Quantization

OLDEST, NEWEST = Version(0, 17), Version(1, 2)
BACKEND = Backend(
    name="tensorrt_llm",
    answers={Task.SERVE: "service.estimator.backends.tensorrt_llm.answer"},
    weight_formats=(Quantization.FP8, Quantization.AWQ_INT4),
    cache_dtypes=(DType.FP8,),
    splits_replicas=True,
    starts_with_any_room=True,
    owns_cache=True,
    owns_kernels=True,
    default_port=8000,
    newest_release=NEWEST,
)
