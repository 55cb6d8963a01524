"""Launch of LMDeploy and of Text Generation Inference."""

from service.estimator.backends.lmdeploy import answer as lmdeploy
from service.estimator.backends.tgi import answer as tgi
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Quantization, ServeWorkload
from service.formats.renderings.job import Job, Launch
from service.formats.renderings.text import Scalar, render_flags
from service.formats.renderings.trainer import TORCH_NAMES
from service.formats.renderings.weights import get_checkpoint

_TGI_QUANTIZATIONS = {
    Quantization.INT8: "bitsandbytes",
    Quantization.NF4: "bitsandbytes-nf4",
    Quantization.GPTQ_INT4: "gptq",
    Quantization.AWQ_INT4: "awq",
    Quantization.FP8: "fp8",
}


def launch_lmdeploy(job: Job, workload: ServeWorkload) -> Launch:
    """Return LMDeploy's command (0.16.0, ``lmdeploy/cli/serve.py``)."""
    values: dict[str, Scalar | None] = {
        "backend": "turbomind",
        "tp": job.layout.tensor_parallel,
        "dtype": TORCH_NAMES[workload.weight_dtype],
        "session-len": workload.resolve_max_model_len(job.model.spec.max_position_embeddings),
        "cache-max-entry-count": lmdeploy.ENGINE.share
        if workload.gpu_memory_fraction is None
        else workload.gpu_memory_fraction,
        "cache-block-seq-len": lmdeploy.ENGINE.block_tokens,
        "max-prefill-token-num": workload.max_num_batched_tokens or lmdeploy.ENGINE.step_tokens,
        "model-format": "awq" if workload.quantization is Quantization.AWQ_INT4 else None,
    }
    command = ("lmdeploy", "serve", "api_server", get_checkpoint(job, workload))
    return Launch(command=(*command, *render_flags(values)))


def launch_tgi(job: Job, workload: ServeWorkload) -> Launch:
    """Return the command of Text Generation Inference (3.3.5, ``launcher/src/main.rs``)."""
    values: dict[str, Scalar | None] = {
        "model-id": get_checkpoint(job, workload),
        "num-shard": job.layout.tensor_parallel,
        "dtype": TORCH_NAMES[workload.weight_dtype],
        "quantize": _TGI_QUANTIZATIONS.get(workload.quantization),
        "kv-cache-dtype": "fp8_e4m3fn" if workload.kv_cache_dtype is DType.FP8 else None,
        "max-total-tokens": workload.max_model_len,
        "max-batch-prefill-tokens": workload.max_num_batched_tokens or tgi.ENGINE.step_tokens,
        "cuda-memory-fraction": workload.gpu_memory_fraction,
    }
    return Launch(command=("text-generation-launcher", *render_flags(values)))
