"""How a serving replica is started: every number that the estimate rests on is said, engines' defaults among them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from service.estimator.backends.llama_cpp import answer as llama_cpp
from service.estimator.backends.tensorrt_llm import answer as tensorrt_llm
from service.estimator.backends.vllm.release import FRACTION_PER_MILLE, release_of
from service.estimator.memory.overheads.gpu_properties import chip_of
from service.estimator.rules.engines import longest_sequence
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention, Engine, Quantization, ServeWorkload
from service.formats.renderings.job import HEAD_ADDRESS, NODE_RANK, Job, Launch
from service.formats.renderings.text import Scalar, as_json, chosen, flags
from service.formats.renderings.trainer import TORCH_NAMES
from service.formats.renderings.weights import checkpoint_of, draft_of, weights_notes

PORT = 20000
"""Where the ranks of an engine meet."""
_ALL_LAYERS = 999
"""llama.cpp takes any number beyond the model's layers for all of them."""
_QUANTIZATIONS: Mapping[Quantization, str] = MappingProxyType(
    {
        Quantization.INT8: "bitsandbytes",
        Quantization.NF4: "bitsandbytes",
        Quantization.GPTQ_INT4: "gptq",
        Quantization.AWQ_INT4: "awq",
        Quantization.FP8: "fp8",
        Quantization.MXFP4: "mxfp4",
    }
)
"""What vLLM and SGLang call formats of weights."""
_CACHE_TYPES = {DType.BF16: "bf16", DType.FP16: "f16", DType.FP32: "f32"}
_ATTENTION = {Attention.EAGER: "eager", Attention.FLASH: "flash_attention_2"}


def launch_serving(job: Job, workload: ServeWorkload) -> Launch:
    """Return how one replica is started on each of its nodes."""
    launch = _LAUNCHES[workload.engine](job, workload)
    return replace(launch, notes=(*launch.notes, *weights_notes(job, workload)))


def _vllm(job: Job, workload: ServeWorkload) -> Launch:
    """Return vLLM's command (0.19.0, ``vllm/engine/arg_utils.py``)."""
    release, longest = release_of(workload.engine_version, chip_of(job.device)), longest_sequence(job.model, workload)
    spread = job.layout.expert_parallel > 1
    values: dict[str, Scalar | None] = {
        **_degrees(job, "tensor-parallel-size", "pipeline-parallel-size"),
        "data-parallel-size": job.layout.data_parallel if spread and job.layout.data_parallel > 1 else None,
        "dtype": TORCH_NAMES[workload.weight_dtype],
        "quantization": _QUANTIZATIONS.get(workload.quantization),
        "kv-cache-dtype": "fp8" if workload.kv_cache_dtype is DType.FP8 else "auto",
        "max-model-len": longest,
        "max-num-seqs": workload.max_num_sequences or max(release.max_num_sequences(job.device), workload.num_sequences),
        "max-num-batched-tokens": workload.max_num_batched_tokens or release.batched_tokens(job.device, longest),
        "gpu-memory-utilization": _fraction(workload, FRACTION_PER_MILLE / 1000),
        "speculative-config": _speculative(job, workload),
    }
    switches = chosen({"enable-expert-parallel": spread, "enforce-eager": workload.enforce_eager})
    several: dict[str, Scalar | None] = {}
    if job.num_nodes > 1:
        several = {"nnodes": job.num_nodes, "node-rank": NODE_RANK, "master-addr": HEAD_ADDRESS}
    command = ("vllm", "serve", checkpoint_of(job, workload), *flags({**values, **several}, switches=switches))
    return Launch(command=command)


def _sglang(job: Job, workload: ServeWorkload) -> Launch:
    """Return SGLang's command (0.5, ``python/sglang/srt/server_args.py``); what is not said are its own defaults.

    Its tensor ranks are all of a server's; with data-parallel attention groups of them attend for themselves.
    """
    spread, attends_apart = job.layout.expert_parallel > 1, _attends_apart(job)
    values: dict[str, Scalar | None] = {
        "model-path": checkpoint_of(job, workload),
        **_degrees(job, "tp-size", "pp-size"),
        "tp-size": _ranks(job),
        "dp-size": job.layout.data_parallel if attends_apart else None,
        "ep-size": job.layout.expert_parallel if spread else None,
        "dtype": TORCH_NAMES[workload.weight_dtype],
        "quantization": _QUANTIZATIONS.get(workload.quantization),
        "kv-cache-dtype": "fp8_e4m3" if workload.kv_cache_dtype is DType.FP8 else "auto",
        "context-length": longest_sequence(job.model, workload),
        "chunked-prefill-size": workload.max_num_batched_tokens,
        "mem-fraction-static": workload.gpu_memory_fraction,
    }
    several: dict[str, Scalar | None] = {}
    if job.num_nodes > 1:
        several = {"nnodes": job.num_nodes, "node-rank": NODE_RANK, "dist-init-addr": f"{HEAD_ADDRESS}:{PORT}"}
    switches = chosen({"enable-dp-attention": attends_apart, "disable-cuda-graph": workload.enforce_eager})
    arguments = flags({**values, **several}, switches=switches)
    return Launch(command=("python", "-m", "sglang.launch_server", *arguments))


def _tensorrt_llm(job: Job, workload: ServeWorkload) -> Launch:
    """Return TensorRT-LLM's command (1.0, ``tensorrt_llm/commands/serve.py``) and its further options."""
    spread = job.layout.expert_parallel > 1
    values: dict[str, Scalar | None] = {
        **_degrees(job, "tp_size", "pp_size"),
        "tp_size": _ranks(job),
        "ep_size": job.layout.expert_parallel if spread else None,
        "max_seq_len": longest_sequence(job.model, workload),
        "max_batch_size": max(workload.max_num_sequences or tensorrt_llm.MAX_BATCH_SIZE, workload.num_sequences),
        "max_num_tokens": workload.max_num_batched_tokens or tensorrt_llm.MAX_NUM_TOKENS,
        "kv_cache_free_gpu_memory_fraction": _fraction(workload, tensorrt_llm.FRACTION_OF_FREE),
        "extra_llm_api_options": "llm_options.yaml",
    }
    options: dict[str, object] = {"kv_cache_config": {"dtype": "fp8" if workload.kv_cache_dtype is DType.FP8 else "auto"}}
    if _attends_apart(job):
        options["enable_attention_dp"] = True
    command = ("trtllm-serve", checkpoint_of(job, workload), *flags(values))
    if job.num_nodes > 1:
        command = ("trtllm-llmapi-launch", *command)
    return Launch(command=command, files={"llm_options.yaml": as_json(options)})


def _llama_server(job: Job, workload: ServeWorkload) -> Launch:
    """Return llama-server's command (``common/arg.cpp``): its context is shared by all slots."""
    length = workload.max_model_len or workload.prompt_tokens + workload.output_tokens
    cache = _CACHE_TYPES[workload.kv_cache_dtype]
    values: dict[str, Scalar | None] = {
        "model": f"{job.model_name}-{workload.quantization.value}.gguf",
        "n-gpu-layers": _ALL_LAYERS,
        "ctx-size": workload.num_sequences * length,
        "parallel": workload.num_sequences,
        "ubatch-size": llama_cpp.MICRO_BATCH,
        "cache-type-k": cache,
        "cache-type-v": cache,
        "flash-attn": "off" if workload.attention is Attention.EAGER else "on",
    }
    return Launch(command=("llama-server", *flags(values)))


def _transformers(job: Job, workload: ServeWorkload) -> Launch:
    """Return a script's calls (transformers 5.23, ``generation/configuration_utils.py``)."""
    loaded: dict[str, object] = {
        "dtype": TORCH_NAMES[workload.weight_dtype],
        "attn_implementation": _ATTENTION.get(workload.attention, "sdpa"),
    }
    if job.layout.tensor_parallel > 1:
        loaded["tp_plan"] = "auto"
    if workload.quantization in {Quantization.NF4, Quantization.INT8}:
        bits = "load_in_4bit" if workload.quantization is Quantization.NF4 else "load_in_8bit"
        loaded["quantization_config"] = {bits: True}
    generated: dict[str, object] = {
        "max_new_tokens": workload.output_tokens,
        "num_beams": workload.num_beams,
        "cache_implementation": workload.cache.value,
    }
    script = ("torchrun", "--standalone", f"--nproc-per-node={job.gpus}", "generate.py")
    notes = (f"the script runs {workload.num_sequences} sequences of {workload.prompt_tokens} tokens at once",)
    return Launch(
        command=script if job.gpus > 1 else ("python", "generate.py"),
        objects={"from_pretrained": loaded, "generate": generated},
        notes=notes,
    )


def _degrees(job: Job, tensor: str, pipeline: str) -> dict[str, Scalar | None]:
    layout = job.layout
    return {tensor: layout.tensor_parallel, pipeline: layout.pipeline_parallel if layout.pipeline_parallel > 1 else None}


def _ranks(job: Job) -> int:
    """Return the ranks of one server that share layers or experts."""
    return job.layout.tensor_parallel * (job.layout.data_parallel if job.layout.expert_parallel > 1 else 1)


def _attends_apart(job: Job) -> bool:
    """Tell whether ranks that share experts attend for themselves."""
    return job.layout.expert_parallel > 1 and job.layout.data_parallel > 1


def _fraction(workload: ServeWorkload, default: float) -> float:
    return default if workload.gpu_memory_fraction is None else workload.gpu_memory_fraction


def _speculative(job: Job, workload: ServeWorkload) -> str | None:
    asked = workload.speculative
    if asked is None:
        return None
    method = {"method": "ngram"} if asked.config is None else {"model": draft_of(job)}
    return json.dumps({**method, "num_speculative_tokens": asked.num_tokens})


_LAUNCHES: Mapping[Engine, Callable[[Job, ServeWorkload], Launch]] = MappingProxyType(
    {
        Engine.VLLM: _vllm,
        Engine.SGLANG: _sglang,
        Engine.TENSORRT_LLM: _tensorrt_llm,
        Engine.LLAMA_CPP: _llama_server,
        Engine.TRANSFORMERS: _transformers,
    }
)
