"""Launch of serving replicas.

Every number that the estimate rests on is set, engines' defaults among them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from service.estimator.backends.llama_cpp import batches as llama_cpp
from service.estimator.backends.tensorrt_llm import answer as tensorrt_llm
from service.estimator.backends.vllm.release import resolve_release
from service.estimator.memory.overheads.gpu_properties import get_gpu_properties
from service.estimator.values.dtypes import DType
from service.estimator.values.generation import Client, Sampling
from service.estimator.values.workload import Attention, Engine, Quantization, ServeWorkload
from service.formats.renderings.heads import list_head_notes, render_head_keywords
from service.formats.renderings.job import HEAD_ADDRESS, NODE_RANK, Job, Launch
from service.formats.renderings.share_serving import launch_lmdeploy, launch_tgi
from service.formats.renderings.text import Scalar, as_json, render_flags, select_enabled
from service.formats.renderings.trainer import TORCH_NAMES
from service.formats.renderings.weights import (
    get_checkpoint,
    get_longest,
    list_weights_notes,
    render_item_limits,
    render_speculative,
    render_state_format,
)

PORT = 20000
"""Port where the ranks of an engine meet."""
_ALL_LAYERS = 999
"""llama.cpp takes any number beyond the model's layers for all of them."""
_QUANTIZATIONS: Mapping[Quantization, str] = MappingProxyType(
    {
        Quantization.NF4: "bitsandbytes",
        Quantization.GPTQ_INT4: "gptq",
        Quantization.AWQ_INT4: "awq",
        Quantization.FP8: "fp8",
        Quantization.MXFP4: "mxfp4",
        Quantization.NVFP4: "modelopt_fp4",
    },
)
"""Names of weight formats in vLLM and SGLang.

Neither makes int8 of 16-bit weights: what bitsandbytes makes there at load time has 4 bits (vLLM,
``quantization/bitsandbytes.py``), and a checkpoint of int8 weights says so itself.
"""
_TENSORRT_QUANTIZATIONS: Mapping[Quantization, str] = MappingProxyType(
    {
        Quantization.INT8: "W8A16",
        Quantization.GPTQ_INT4: "W4A16_GPTQ",
        Quantization.AWQ_INT4: "W4A16_AWQ",
        Quantization.FP8: "FP8",
        Quantization.MXFP4: "W4A16_MXFP4",
        Quantization.NVFP4: "NVFP4",
    }
)
"""``QuantAlgo`` (TensorRT-LLM, ``tensorrt_llm/quantization/mode.py``)."""
_BITSANDBYTES: Mapping[Quantization, Mapping[str, Scalar]] = MappingProxyType(
    {
        Quantization.INT8: {"load_in_8bit": True},
        Quantization.NF4: {
            "load_in_4bit": True,
            "bnb_4bit_quant_type": "nf4",
            "bnb_4bit_use_double_quant": True,
        },
    }
)
"""``BitsAndBytesConfig`` of what is estimated; its own defaults are fp4 and scales as they are."""
_CACHE_TYPES = {DType.BF16: "bf16", DType.FP16: "f16", DType.FP32: "f32"}
_ATTENTION = {Attention.EAGER: "eager", Attention.FLASH: "flash_attention_2"}


def launch_serving(job: Job, workload: ServeWorkload) -> Launch:
    """Return the launch of one replica on each of its nodes."""
    launch = _LAUNCHES[workload.engine](job, workload)
    return replace(launch, notes=(*launch.notes, *list_weights_notes(job, workload)))


def _launch_vllm(job: Job, workload: ServeWorkload) -> Launch:
    """Return vLLM's command (0.33.0, ``vllm/engine/arg_utils.py``)."""
    release = resolve_release(workload.engine_version, get_gpu_properties(job.device))
    longest = get_longest(job, workload)
    has_expert_parallel = job.layout.expert_parallel > 1
    sequences = workload.max_num_sequences or max(
        release.get_max_num_sequences(job.device), workload.num_sequences
    )
    values: dict[str, Scalar | None] = {
        **_make_degrees(job, "tensor-parallel-size", "pipeline-parallel-size"),
        "data-parallel-size": job.layout.data_parallel
        if has_expert_parallel and job.layout.data_parallel > 1
        else None,
        "runner": None if job.model.generates else "pooling",
        "dtype": TORCH_NAMES[workload.weight_dtype],
        "quantization": _QUANTIZATIONS.get(workload.quantization),
        "kv-cache-dtype": "fp8" if workload.kv_cache_dtype is DType.FP8 else "auto",
        "mamba-ssm-cache-dtype": render_state_format(workload),
        "max-model-len": longest,
        "max-num-seqs": sequences,
        "max-num-batched-tokens": workload.max_num_batched_tokens
        or release.get_batched_tokens(job.device, longest, sequences),
        "cpu-offload-gb": workload.cpu_offload_gb,
        "max-loras": workload.max_loras,
        "max-lora-rank": workload.max_lora_rank,
        "limit-mm-per-prompt": render_item_limits(workload),
        "gpu-memory-utilization": _get_fraction(workload, release.memory_fraction),
        "kv-cache-memory-bytes": workload.kv_pool_bytes,
        "num-gpu-blocks-override": workload.kv_pool_blocks,
        "speculative-config": render_speculative(job, workload),
    }
    switches = select_enabled(
        {
            "enable-expert-parallel": has_expert_parallel,
            "enforce-eager": workload.enforce_eager,
            "enable-lora": workload.max_loras is not None,
        }
    )
    multi_node: dict[str, Scalar | None] = {}
    if job.num_nodes > 1:
        multi_node = {"nnodes": job.num_nodes, "node-rank": NODE_RANK, "master-addr": HEAD_ADDRESS}
    flags = render_flags({**values, **multi_node}, switches=switches)
    return Launch(command=("vllm", "serve", get_checkpoint(job, workload), *flags))


def _launch_sglang(job: Job, workload: ServeWorkload) -> Launch:
    """Return SGLang's command.

    0.5, ``python/sglang/srt/server_args.py``; unset options have its own defaults. Its tensor ranks
    are all of a server's; with data-parallel attention groups of them attend for themselves.
    """
    has_expert_parallel, has_attention_dp = (
        job.layout.expert_parallel > 1,
        _has_data_parallel_attention(job),
    )
    values: dict[str, Scalar | None] = {
        "model-path": get_checkpoint(job, workload),
        **_make_degrees(job, "tp-size", "pp-size"),
        "tp-size": _count_ranks(job),
        "dp-size": job.layout.data_parallel if has_attention_dp else None,
        "ep-size": job.layout.expert_parallel if has_expert_parallel else None,
        "dtype": TORCH_NAMES[workload.weight_dtype],
        "quantization": _QUANTIZATIONS.get(workload.quantization),
        "kv-cache-dtype": "fp8_e4m3" if workload.kv_cache_dtype is DType.FP8 else "auto",
        "mamba-ssm-dtype": render_state_format(workload),
        "context-length": get_longest(job, workload),
        "chunked-prefill-size": workload.max_num_batched_tokens,
        "max-running-requests": workload.max_num_sequences,
        "mem-fraction-static": workload.gpu_memory_fraction,
        "max-total-tokens": workload.kv_pool_tokens,
        "cpu-offload-gb": None
        if workload.cpu_offload_gb is None
        else math.ceil(workload.cpu_offload_gb),
    }
    multi_node: dict[str, Scalar | None] = {}
    if job.num_nodes > 1:
        multi_node = {"nnodes": job.num_nodes, "node-rank": NODE_RANK}
        multi_node["dist-init-addr"] = f"{HEAD_ADDRESS}:{PORT}"
    switches = select_enabled(
        {
            "enable-dp-attention": has_attention_dp,
            "disable-cuda-graph": workload.enforce_eager,
            "is-embedding": not job.model.generates,
        }
    )
    arguments = render_flags({**values, **multi_node}, switches=switches)
    return Launch(command=("python", "-m", "sglang.launch_server", *arguments))


def _launch_tensorrt_llm(job: Job, workload: ServeWorkload) -> Launch:
    """Return TensorRT-LLM's command and its YAML (1.0, ``tensorrt_llm/commands/serve.py``)."""
    has_expert_parallel = job.layout.expert_parallel > 1
    values: dict[str, Scalar | None] = {
        **_make_degrees(job, "tp_size", "pp_size"),
        "tp_size": _count_ranks(job),
        "ep_size": job.layout.expert_parallel if has_expert_parallel else None,
        "max_seq_len": get_longest(job, workload),
        "max_batch_size": max(
            workload.max_num_sequences or tensorrt_llm.MAX_BATCH_SIZE, workload.num_sequences
        ),
        "max_num_tokens": workload.max_num_batched_tokens or tensorrt_llm.MAX_NUM_TOKENS,
        "kv_cache_free_gpu_memory_fraction": _get_fraction(workload, tensorrt_llm.FRACTION_OF_FREE),
        "extra_llm_api_options": "llm_options.yaml",
    }
    cache: dict[str, object] = {"dtype": "fp8" if workload.kv_cache_dtype is DType.FP8 else "auto"}
    if workload.kv_pool_tokens is not None:
        cache["max_tokens"] = workload.kv_pool_tokens
    options: dict[str, object] = {"dtype": TORCH_NAMES[workload.weight_dtype]}
    options["kv_cache_config"] = cache
    if workload.quantization in _TENSORRT_QUANTIZATIONS:
        algorithm = _TENSORRT_QUANTIZATIONS[workload.quantization]
        options["quant_config"] = {"quant_algo": algorithm}
    if _has_data_parallel_attention(job):
        options["enable_attention_dp"] = True
    command = ("trtllm-serve", get_checkpoint(job, workload), *render_flags(values))
    if job.num_nodes > 1:
        command = ("trtllm-llmapi-launch", *command)
    return Launch(command=command, files={"llm_options.yaml": as_json(options)})


def _launch_llama_server(job: Job, workload: ServeWorkload) -> Launch:
    """Return llama-server's command (``common/arg.cpp``): its context is shared by all slots."""
    length = workload.max_model_len or workload.prompt_tokens + workload.output_tokens
    cache = workload.cache_type or _CACHE_TYPES[workload.kv_cache_dtype]
    micro = workload.max_num_batched_tokens or llama_cpp.MICRO_BATCH
    values: dict[str, Scalar | None] = {
        "model": f"{job.model_name}-{workload.quantization.value}.gguf",
        "n-gpu-layers": _ALL_LAYERS if workload.gpu_layers is None else workload.gpu_layers,
        "n-cpu-moe": workload.cpu_moe_layers,
        "split-mode": _get_split_mode(job),
        "ctx-size": workload.num_sequences * length,
        "parallel": workload.num_sequences,
        "batch-size": micro if micro > llama_cpp.BATCH else None,
        "ubatch-size": micro,
        "tensor-split": ",".join(f"{share:g}" for share in workload.tensor_split or ()) or None,
        "cache-type-k": cache,
        "cache-type-v": cache,
        "flash-attn": "off" if workload.attention is Attention.EAGER else "on",
    }
    return Launch(command=("llama-server", *render_flags(values)))


def _get_split_mode(job: Job) -> str | None:
    """Return how several GPUs share the layers; None on one."""
    if job.layout.tensor_parallel > 1:
        return "row"
    return "layer" if job.layout.pipeline_parallel > 1 else None


def _launch_transformers(job: Job, workload: ServeWorkload) -> Launch:
    """Return a script's calls (transformers 5.23, ``generation/configuration_utils.py``)."""
    loaded: dict[str, object] = {
        "dtype": TORCH_NAMES[workload.weight_dtype],
        "attn_implementation": _ATTENTION.get(workload.attention, "sdpa"),
    }
    if job.layout.tensor_parallel > 1:
        loaded["tp_plan"] = "auto"
    if workload.quantization in _BITSANDBYTES:
        loaded["quantization_config"] = dict(_BITSANDBYTES[workload.quantization])
    generated: dict[str, object] = {
        "max_new_tokens": workload.output_tokens,
        "num_beams": workload.num_beams,
        "do_sample": workload.sampling is Sampling.SAMPLE,
        "cache_implementation": workload.cache.value,
    }
    size = f"{workload.num_sequences} sequences of {workload.prompt_tokens} tokens"
    notes = [f"the script runs {size} at once"]
    if job.model.task is not None:
        return Launch(
            command=("python", "encode.py"),
            objects={"from_pretrained": loaded | render_head_keywords(job.model)},
            notes=(*list_head_notes(job.model, trains=False), *notes),
        )
    script = ("torchrun", "--standalone", f"--nproc-per-node={job.gpus}", "generate.py")
    if workload.client is Client.LOOP:
        notes.append("the plan is for a loop of forward passes in place of generate")
    return Launch(
        command=script if job.gpus > 1 else ("python", "generate.py"),
        objects={"from_pretrained": loaded, "generate": generated},
        notes=tuple(notes),
    )


def _make_degrees(job: Job, tensor: str, pipeline: str) -> dict[str, Scalar | None]:
    layout = job.layout
    return {
        tensor: layout.tensor_parallel,
        pipeline: layout.pipeline_parallel if layout.pipeline_parallel > 1 else None,
    }


def _count_ranks(job: Job) -> int:
    """Return the ranks of one server that share layers or experts."""
    groups = job.layout.data_parallel if job.layout.expert_parallel > 1 else 1
    return job.layout.tensor_parallel * groups


def _has_data_parallel_attention(job: Job) -> bool:
    """Return whether ranks that share experts split attention by data."""
    return job.layout.expert_parallel > 1 and job.layout.data_parallel > 1


def _get_fraction(workload: ServeWorkload, default: float) -> float:
    return default if workload.gpu_memory_fraction is None else workload.gpu_memory_fraction


_LAUNCHES: Mapping[Engine, Callable[[Job, ServeWorkload], Launch]] = MappingProxyType(
    {
        Engine.VLLM: _launch_vllm,
        Engine.SGLANG: _launch_sglang,
        Engine.TENSORRT_LLM: _launch_tensorrt_llm,
        Engine.LLAMA_CPP: _launch_llama_server,
        Engine.LMDEPLOY: launch_lmdeploy,
        Engine.TGI: launch_tgi,
        Engine.TRANSFORMERS: _launch_transformers,
    },
)
