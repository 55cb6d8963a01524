"""Golden values of Megatron-LM's functional tests: bytes of the last rank."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from service.catalog.gpus import resolve_gpu
from service.estimator.backends.megatron.parameters import count_stage_parameters
from service.estimator.backends.megatron.shape import build_rank_shape, resolve_switches
from service.estimator.backends.megatron.stages import list_stage_chunks, merge_chunks
from service.estimator.backends.megatron.states import compute_stage_states
from service.estimator.backends.megatron.workspaces import get_generation, workspace_bytes
from service.estimator.model.families.registry import architecture_from_spec
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import TrainWorkload
from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._megatron import read_options

_GPUS = {
    "NVIDIA A100 (DGX)": "A100-SXM4-80GB",
    "NVIDIA H100 80GB (DGX)": "H100-SXM5-80GB",
    "NVIDIA GB200": "GB200-186GB",
}
_READINGS = frozenset({"memory_allocated_steady", "max_memory_allocated"})
_NO_WORD = {
    "--encoder-num-layers": "an encoder-decoder of Megatron-LM's own",
    "--is-hybrid-model": "a hybrid of Megatron-LM's own",
    "--export-model-type": "a hybrid of Megatron-LM's own",
    "--img-h": "a vision-language model of Megatron-LM's own",
    "--use-megatron-fsdp": "Megatron-FSDP",
    "--fp8-format": "fp8",
    "--cuda-graph-impl": "CUDA graphs",
    "--recompute-modules": "recomputation of modules by name",
    "--num-distributed-optimizer-instances": "several distributed optimizers",
    "--outer-dp-sharding-strategy": "several distributed optimizers",
    "--use-transformer-engine-op-fuser": "Transformer Engine's operation fuser",
    "--spec": "a layer specification by name",
    "--flextron": "a model of elastic width",
    "--overlap-moe-expert-parallel-comm": "one more micro-batch for the overlap of expert traffic",
    "--moe-router-fusion": "a fused router",
}
"""Flags for which the contract has no word, and what they are."""
_LARGEST_JOB = 4096  # data-parallel ranks, where their number is not public


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield one test; a cluster of unknown size is as large as its bytes between steps say."""
    arguments = row["framework_config"]["model_args"]
    _refuse(row, arguments)
    spec, layout = _architecture(row, arguments), _layout(row, arguments)
    readings = [
        _reading(reading) for reading in row["measured"] if reading["quantity"] in _READINGS
    ]
    ranks = row["parallelism"]["dp"]
    if ranks is None and row["optimizer"]["distributed"]:
        if row["framework_config"]["test_type"] != "release":
            raise Untranslatable("the number of data-parallel ranks is not stated")
        steady = next(
            reading["low"]
            for reading in readings
            if reading["quantity"] == "memory_allocated_steady"
        )
        ranks = _solved(spec, layout, _GPUS[row["hardware"]["gpu"]], steady)
        readings = [
            reading for reading in readings if reading["quantity"] == "max_memory_allocated"
        ]
    # Without a distributed optimizer the ranks change nothing, if all experts have one.
    layout["data_parallel"] = ranks or layout["expert_parallel"]
    batch = row["batch"]
    small = row["scale"] == "small"
    yield {
        "id": row["id"],
        "group": row["weight_group"],
        "class": "megatron",
        "source": f"{row['source']['repo']}@{row['source']['commit']}/{row['source']['path']}",
        "model": {"architecture": spec},
        "workload": _workload(row, arguments)
        | {
            "gradient_accumulation_steps": max(
                1, batch["global_batch"] // (batch["micro_batch"] * layout["data_parallel"])
            ),
        },
        "layout": layout,
        "gpu": _GPUS[row["hardware"]["gpu"]],
        "outcome": row["outcome"],
        "readings": readings,
        "rank": "last",
        "absolute": small,
    }


def _refuse(row: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    kind = row["source"]["path"].split("/")[3]
    if kind in {"bert", "t5"}:
        raise Untranslatable(f"Megatron-LM's own {kind}")
    for flag, what in _NO_WORD.items():
        if arguments.get(flag):
            raise Untranslatable(f"no word for {what}")
    if arguments.get("--optimizer", "adam") != "adam":
        raise Untranslatable(f"optimizer {arguments['--optimizer']} of Megatron-LM's own")
    if row["hardware"]["gpu"] not in _GPUS:
        raise Untranslatable("the GPU is not stated")


def _architecture(row: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    arch = row["model"]["arch"]
    rotary = arch["position_embedding"] == "rope"
    spec = {
        "family": "gpt2",
        "vocab_size": _vocabulary(row, arguments),
        "hidden_size": arch["hidden"],
        "num_hidden_layers": arch["layers"],
        "num_attention_heads": arch["heads"],
        "num_key_value_heads": arch["kv_heads"],
        "head_dim": arch["head_dim"],
        "intermediate_size": arch["intermediate"],
        "activation": "silu" if arch["gated_mlp"] else "gelu",
        "gated": arch["gated_mlp"],
        "norm": "layer" if arch["normalization"] == "LayerNorm" else "rms",
        "tie_word_embeddings": arch["tie_embeddings"],
        "attention_bias": arch["biases"],
        "attention_output_bias": arch["biases"],
        "mlp_bias": arch["biases"],
        "query_key_norm": bool(arguments.get("--qk-layernorm")),
        "rotary": rotary,
        "max_position_embeddings": int(arguments["--max-position-embeddings"]),
        "attention_dropout": float(arguments.get("--attention-dropout", 0.1)),
        "residual_dropout": float(arguments.get("--hidden-dropout", 0.1)),
        "embedding_dropout": float(arguments.get("--hidden-dropout", 0.1)),
    }
    if arch.get("experts"):
        spec |= _experts(arch)
    if arch.get("kv_lora_rank"):
        spec |= _latent(arch)
    return spec


def _vocabulary(row: Mapping[str, Any], arguments: Mapping[str, Any]) -> int:
    """Return the padded vocabulary; the null tokenizer of releases before 2026 adds its
    end-of-document token.
    """
    padded: int = row["model"]["arch"]["padded_vocab"]
    own = (
        arguments.get("--tokenizer-type") == "NullTokenizer"
        and row["model"]["arch"]["vocab"] == padded
    )
    return padded + own


def _experts(arch: Mapping[str, Any]) -> dict[str, Any]:
    dense = re.fullmatch(
        r"\(\[0\]\*(\d+)\+\[1\]\*(\d+)\)", str(arch.get("moe_layer_freq", "([0]*0+[1]*1)"))
    )
    if dense is None:
        raise Untranslatable(f"layers with experts as {arch['moe_layer_freq']}")
    return {
        "family": "mixtral",
        "num_experts": arch["experts"],
        "num_experts_per_token": arch["experts_per_token"],
        "expert_intermediate_size": arch.get("moe_intermediate") or arch["intermediate"],
        "shared_intermediate_size": arch.get("shared_expert_intermediate") or 0,
        "first_dense_layers": int(dense[1]),
        "router": "softmax",
    }


_NO_EXPERTS = {
    "num_experts": 1,
    "num_experts_per_token": 1,
    "expert_intermediate_size": 1,
    "router": "softmax",
}
"""Latent attention in dense layers alone: the family's specification has experts, in none of its
layers.
"""


def _latent(arch: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "family": "deepseek_v3",
        "head_dim": arch["qk_nope_head_dim"] + arch["qk_rope_head_dim"],
        "rotary_dim": arch["qk_rope_head_dim"],
        "query_latent": arch["q_lora_rank"],
        "key_value_latent": arch["kv_lora_rank"],
        "passed_dim": arch["qk_nope_head_dim"],
        "value_dim": arch["v_head_dim"],
        "complex_rotation": False,
        "query_key_norm": False,
    } | ({} if arch.get("experts") else _NO_EXPERTS | {"first_dense_layers": arch["layers"]})


def _layout(row: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    parallel = row["parallelism"]
    stages, layers = parallel["pp"], row["model"]["arch"]["layers"]
    per_chunk = arguments.get("--num-layers-per-virtual-pipeline-stage")
    virtual = (
        layers // (stages * int(per_chunk))
        if per_chunk
        else arguments.get("--num-virtual-stages-per-pipeline-rank", 1)
    )
    layout = {
        "tensor_parallel": parallel["tp"],
        "pipeline_parallel": stages,
        "context_parallel": parallel["cp"] or 1,
        "expert_parallel": parallel["ep"] or 1,
        "virtual_pipeline_stages": virtual if stages > 1 else 1,
        "sequence_parallel": bool(parallel["sequence_parallel"]) and parallel["tp"] > 1,
        "sharding": "megatron",
        "zero_stage": 1 if row["optimizer"]["distributed"] else 0,
    }
    layout |= {word: arguments[f"--{flag}"] for flag, word in _SPLITS if arguments.get(f"--{flag}")}
    return layout | ({"expert_tensor_parallel": parallel["etp"]} if parallel["etp"] else {})


_SPLITS = (
    ("decoder-first-pipeline-num-layers", "num_layers_in_first_pipeline_stage"),
    ("decoder-last-pipeline-num-layers", "num_layers_in_last_pipeline_stage"),
    ("account-for-embedding-in-pipeline-split", "account_for_embedding_in_pipeline_split"),
    ("account-for-loss-in-pipeline-split", "account_for_loss_in_pipeline_split"),
)


def _workload(row: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    fp16, fuses = (
        bool(arguments.get(f"--{flag}")) for flag in ("fp16", "cross-entropy-loss-fusion")
    )
    return {
        "task": "train",
        "framework": "megatron",
        "precision": _FP16 if fp16 else "megatron_bf16",
        "optimizer": "adamw",
        "sequence_length": row["batch"]["seq_len"],
        "micro_batch_size": row["batch"]["micro_batch"],
        "attention": _ATTENTION[arguments.get("--attention-backend")],
        "activation_checkpointing": arguments.get("--recompute-granularity", "none"),
        "loss": "fused_cross_entropy" if fuses else "full_logits",
        "deterministic": bool(arguments.get("--deterministic-mode")),
        "megatron": read_options(arguments),
    }


_ATTENTION = {None: "sdpa", "flash": "flash", "unfused": "eager"}
_FP16 = {
    "param_dtype": "fp16",
    "compute_dtype": "fp16",
    "grad_dtype": "fp16",
    "master_dtype": "fp32",
    "main_grad_dtype": "fp32",
    "optimizer_dtype": "fp32",
}
"""Megatron-LM's ``--fp16``: gradients are kept in 16 bit and made fp32 for the step (arguments.py).
"""


def _solved(spec: Mapping[str, Any], layout: Mapping[str, Any], gpu: str, steady_bytes: int) -> int:
    """Return the data-parallel ranks, a power of two, whose states come closest to what lies
    between steps.
    """
    model, generation = architecture_from_spec(spec), get_generation(resolve_gpu(gpu).to_device())
    switches = resolve_switches(TrainWorkload(sequence_length=1), heads=1, fused_attention=True)

    def distance(ranks: int) -> int:
        held = Layout(**{**layout, "sharding": Sharding.MEGATRON, "data_parallel": ranks})
        shape, layers = (
            build_rank_shape(model, held),
            merge_chunks(list_stage_chunks(model, held)[held.pipeline_parallel - 1][1]),
        )
        states = compute_stage_states(
            count_stage_parameters(shape, layers), POLICIES["megatron_bf16"], held, "adamw"
        )
        return abs(
            steady_bytes
            - states.resident
            - workspace_bytes(layers, generation, switches, deterministic=False),
        )

    least = max(
        1,
        layout["expert_parallel"] * layout.get("expert_tensor_parallel", layout["tensor_parallel"]),
    )
    sizes = [1 << power for power in range(_LARGEST_JOB.bit_length())]
    return min(
        (ranks for ranks in sizes if ranks * layout["tensor_parallel"] >= least), key=distance
    )


def _reading(reading: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "quantity": reading["quantity"],
        "low": reading["bytes_low"],
        "high": reading["bytes_high"],
    }
