"""Workloads and layouts by chance: most of them legal, every word of the contract among them."""

import random
from typing import Any

from tests.answers.questions import Json, words

OPTIMIZERS = words(
    "adafactor adagrad adamw adamw_4bit adamw_8bit adamw_8bit_torchao adamw_bnb adamw_fused "
    "adamw_loop apollo galore_adamw lion lion_8bit muon paged_adamw paged_adamw_8bit "
    "paged_lion_8bit rmsprop schedule_free_adamw sgd sgd_momentum"
)
POLICIES = words(
    "amp_bf16 amp_fp16 bf16 bf16_autocast bf16_mixed deepspeed_bf16 fp16 fp16_autocast fp16_mixed "
    "fp32 megatron_bf16"
)
PRECISIONS: tuple[object, ...] = (
    *POLICIES,
    {"param_dtype": "fp32", "compute_dtype": "bf16", "grad_dtype": "fp32"},
    {"param_dtype": "bf16", "master_dtype": "fp32", "optimizer_dtype": "bf16"},
    {"param_dtype": "bf16", "main_grad_dtype": "fp32", "main_grad_persistent": True},
)
LOSSES = words(
    "full_logits fused_cross_entropy flash_cross_entropy chunked fused_linear chunked_nll nll dft"
)
ATTENTIONS = words("eager sdpa flash efficient math")
CHECKPOINTINGS: tuple[object, ...] = ("none", "selective", "full", {"selective": 2})
VERSIONS = {
    "transformers": ["4.31.0", "4.38.2", "4.46.0", "4.57.1", "5.23.0"],
    "vllm": words("0.4.2 0.6.4 0.7.3 0.8.5 0.10.0 0.15.0 0.17.0 0.19.0 0.21.0"),
    "sglang": ["0.4.1", "0.4.9", "0.5.2", "0.5.5", "0.5.9"],
    "tensorrt_llm": ["0.17.0", "0.20.0", "1.0.0", "1.1.0"],
    "llama_cpp": ["3000", "5000", "6500"],
}
DENSE = words("none int8 nf4 gptq_int4 awq_int4 fp8 mxfp4")
GGUF = words("none int8 mxfp4 q8_0 q6_k q5_k_m q4_k_m q4_0")
SWITCHES = words(
    "fp32_outputs keeps_logits padding_mask reentrant_checkpointing gradient_clipping "
    "fp32_norms_and_head double_quantization optimizer_in_backward compile deterministic float8"
)


def training(chance: random.Random) -> tuple[Json, Json]:
    """Return a training workload and a layout."""
    workload: Json = {
        "task": "train",
        "sequence_length": chance.choice([64, 128, 512, 1024, 1000, 2048, 4096, 8192, 32768]),
        "micro_batch_size": chance.choice([1, 1, 1, 2, 3, 4, 8, 16]),
    }
    maybe = {
        "precision": (0.6, PRECISIONS),
        "optimizer": (0.6, OPTIMIZERS),
        "activation_checkpointing": (0.5, CHECKPOINTINGS),
        "attention": (0.4, ATTENTIONS),
        "loss": (0.35, LOSSES),
        "allocator": (0.2, ("default", "expandable_segments")),
        "gradient_accumulation_steps": (0.25, (1, 2, 8)),
        "framework_version": (0.05, ("4.38.2", "4.46.0", "5.0.0")),
        "frozen": (0.06, (["embedding"], ["embedding", "mlp"], ["vision"])),
    }
    workload |= {
        name: chance.choice(values)
        for name, (share, values) in maybe.items()
        if chance.random() < share
    }
    workload |= {name: chance.random() < 0.7 for name in SWITCHES if chance.random() < 0.07}
    return workload | _method(chance), {}


def spread(chance: random.Random) -> tuple[Json, Json]:
    """Return a training workload that is spread over many GPUs."""
    workload, _ = training(chance)
    kind = chance.choice(["ddp", "deepspeed", "fsdp1", "fsdp2", "hsdp", "tensor", "titan", "core"])
    data = chance.choice([2, 4, 8, 16, 64])
    if kind == "core":
        return _megatron(workload, chance)
    if kind == "titan":
        workload = {"task": "train"} | {
            name: workload[name] for name in ("sequence_length", "micro_batch_size")
        }
        workload |= {
            "framework": "torchtitan",
            "activation_checkpointing": chance.choice(["none", "selective", "full"]),
            "precision": chance.choice([PRECISIONS[9], "bf16_mixed", "bf16"]),
            "compile": chance.random() < 0.4,
            "float8": chance.random() < 0.2,
        }
        return workload, _titan_layout(chance, data)
    layouts: dict[str, Json] = {
        "ddp": {"sharding": "ddp", "zero_stage": 0},
        "deepspeed": {"sharding": "deepspeed", "zero_stage": chance.choice([1, 2, 3])},
        "fsdp1": {"sharding": "fsdp1", "zero_stage": chance.choice([2, 3])},
        "fsdp2": {"sharding": "fsdp2", "zero_stage": chance.choice([2, 3])},
        "hsdp": {"sharding": "fsdp2", "zero_stage": 3, "shard_size": max(2, data // 2)},
        "tensor": {"sharding": "fsdp2", "zero_stage": 3, "tensor_parallel": chance.choice([2, 4])},
    }
    layout = {"data_parallel": data, **layouts[kind]}
    if kind == "deepspeed" and chance.random() < 0.5:
        workload["offload"] = _offload(chance)
        layout |= {"host_memory_bytes": "1Ti", "nvme_bytes": "8Ti"}
    if kind == "fsdp2":
        layout |= chance.choice([{}, {"reshard_after_forward": False}, {"context_parallel": 2}])
        layout |= chance.choice([{}, {"shard_embeddings_separately": True}])
    return workload, layout


def serving(chance: random.Random, engine: str | None = None) -> tuple[Json, Json]:
    """Return a serving workload and a layout."""
    engine = engine or chance.choice(list(VERSIONS))
    workload: Json = {
        "task": "serve",
        "engine": engine,
        "num_sequences": chance.choice([1, 2, 8, 64, 256]),
        "prompt_tokens": chance.choice([1, 64, 512, 2048, 4000]),
        "output_tokens": chance.choice([1, 128, 512, 1000]),
    }
    maybe: dict[str, tuple[float, Any]] = {
        "engine_version": (0.6, VERSIONS[engine]),
        "weight_dtype": (0.3, ("bf16", "fp16", "fp32", "fp8")),
        "quantization": (0.4, GGUF if engine == "llama_cpp" else DENSE),
        "kv_cache_dtype": (0.2, ("bf16", "fp8", "fp16")),
        "attention": (0.2, ATTENTIONS),
    }
    if engine == "transformers":
        maybe |= {"num_beams": (0.2, (2, 4)), "cache": (0.4, ("dynamic", "static", "paged"))}
    else:
        maybe |= {
            "max_model_len": (0.4, (2048, 8192, 16384)),
            "max_num_batched_tokens": (0.2, (2048, 8192, 16384)),
            "max_num_sequences": (0.2, (16, 256, 1024)),
            "gpu_memory_fraction": (0.4, (0.5, 0.8, 0.9, 0.95)),
            "enforce_eager": (0.2, (True, False)),
            "speculative": (0.15, _speculations()),
        }
    workload |= {
        name: chance.choice(values)
        for name, (share, values) in maybe.items()
        if chance.random() < share
    }
    layout: Json = {}
    if chance.random() < 0.4:
        layout = {"tensor_parallel": chance.choice([2, 4, 8])}
        layout |= chance.choice([{}, {}, {"pipeline_parallel": 2}, {"data_parallel": 2}])
    return workload, layout


def _method(chance: random.Random) -> Json:
    """Return what is trained."""
    rank = {"rank": chance.choice([4, 8, 16, 64])}
    targets = chance.choice(["all-linear", ["q_proj", "v_proj"], ["gate_proj"]])
    methods: list[Json] = [
        {},
        {},
        {"method": "full"},
        {"method": "lora"},
        {"method": "lora", "lora": rank | {"target_modules": targets}},
        {"method": "lora", "lora": rank | {"dtype": chance.choice(["bf16", "fp32"])}},
        {"method": "lora", "lora": rank | {"variant": chance.choice(["dora", "rslora"])}},
        {"method": "qlora", "lora": rank},
        {"method": "qlora"},
        {"method": "peft", "peft": {"type": chance.choice(["ia3", "miss", "dora", "vera"])}},
    ]
    return chance.choice(methods)


def _megatron(workload: Json, chance: random.Random) -> tuple[Json, Json]:
    kept = ("task", "sequence_length", "micro_batch_size", "activation_checkpointing")
    asked = {name: workload[name] for name in kept if name in workload} | {
        "framework": "megatron",
        "precision": chance.choice(["bf16_mixed", "megatron_bf16"]),
        "gradient_accumulation_steps": chance.choice([4, 8, 16]),
    }
    layout = {
        "sharding": "megatron",
        "data_parallel": chance.choice([1, 2, 8]),
        "tensor_parallel": chance.choice([1, 2, 4, 8]),
        "pipeline_parallel": chance.choice([1, 2, 4]),
        "zero_stage": chance.choice([0, 1]),
        "sequence_parallel": chance.random() < 0.5,
    }
    layout |= chance.choice(
        [
            {},
            {},
            {"context_parallel": 2},
            {"virtual_pipeline_stages": 2},
            {"expert_parallel": chance.choice([2, 4])},
            {"expert_parallel": 2, "expert_tensor_parallel": 1},
        ]
    )
    return asked, layout


def _titan_layout(chance: random.Random, data: int) -> Json:
    layout: Json = {"sharding": "fsdp2", "zero_stage": 3, "data_parallel": data}
    more: list[Json] = [
        {},
        {"tensor_parallel": 2},
        {"tensor_parallel": 8, "sequence_parallel": True},
        {"context_parallel": 2},
        {"pipeline_parallel": 2},
    ]
    return layout | chance.choice(more)


def _offload(chance: random.Random) -> Json:
    targets = ["none", "cpu", "cpu", "nvme"]
    return {
        "optimizer": chance.choice(targets),
        "parameters": chance.choice(targets),
        "activations": chance.choice(["none", "none", "cpu"]),
    }


def _speculations() -> list[Json]:
    return [
        {"num_tokens": 3},
        {"num_tokens": 5, "draft": "llama-3.2-1b"},
        {"num_tokens": 2, "draft": "qwen2.5-0.5b"},
    ]
