"""llama.cpp as a backend."""

from service.estimator.values.backend import Backend, Task
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Quantization

BACKEND = Backend(
    name="llama_cpp",
    answers={Task.SERVE: "service.estimator.backends.llama_cpp.answer"},
    weight_formats=(Quantization.Q8_0, Quantization.Q4_K_M),
    # Its cache has 16 bits, whatever its weights have.
    cache_dtypes=(DType.FP16, DType.BF16),
    sized_by_length=True,
    follows_request=True,
    owns_cache=True,
    default_port=8080,
)
