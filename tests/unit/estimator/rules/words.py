"""Values to which the words of a question are changed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from service.estimator.values.adapters.lora_kernels import LoraKernel
from service.estimator.values.batches import Clip, Evaluation, Inputs, Picture, SequencePacking
from service.estimator.values.dtypes import CacheType, DType
from service.estimator.values.generation import Client, Rollout, RolloutEngine, Sampling
from service.estimator.values.layout import ContextMethod, Sharding
from service.estimator.values.losses import Kernels, Loss, Reference, Trainer
from service.estimator.values.megatron import MegatronOptions, TransformerImpl
from service.estimator.values.pipeline import PipelineSchedule, PipelineSplit
from service.estimator.values.precision import POLICIES
from service.estimator.values.speculative import DraftHead, Speculative
from service.estimator.values.workload import (
    Attention,
    Cache,
    Checkpointing,
    Engine,
    Framework,
    Lora,
    Method,
    Offload,
    OffloadTarget,
    Quantization,
)

_CPU, _NVME = OffloadTarget.CPU, OffloadTarget.NVME
BF16, MIXED = POLICIES["bf16"], POLICIES["bf16_mixed"]
_GATHERED = replace(BF16, name="custom", param_dtype=DType.FP32, autocast=False)

ODD: Mapping[str, dict[str, Any]] = {
    "inner": {"intermediate_size": 255},
    "heads": {"num_attention_heads": 6, "num_key_value_heads": 3},
    "hidden": {"hidden_size": 127},
    "deep": {"num_hidden_layers": 12},
    "tied": {"tied": True},
    "gguf": {"from_gguf": True},
    "recorded": {"recorded": True},
    "few": {"recorded": True, "fewest_sequences": 3},
    "windowed": {"recorded": True, "longest_sequence": 40},
    "states": {"recorded": True, "recurrent": True},
}
"""Sizes that other models might have."""
QUANTISED: Mapping[str, dict[str, object]] = {
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128},
    "fp8": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "int8": {"quant_method": "bitsandbytes", "load_in_8bit": True},
    "nf4": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
    "hqq": {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4}}},
    "part": {"quant_method": "bitsandbytes", "load_in_8bit": True}
    | {"llm_int8_skip_modules": ["model.layers.0.mlp.up_proj"]},
}
"""Formats that configs name."""
RECORDED: Mapping[str, dict[str, Any]] = {
    "helium_recorded": {"plan": ()},
    "helium_planned": {"plan": (("self_attn.q_proj", "colwise"), ("mlp.up_proj", "colwise"))},
}
"""Recordings, without a tensor-parallel plan and with one."""
OWN: Mapping[str, dict[str, Any]] = {
    "relu": {"hidden_act": "relu"},
    "biased": {"attention_bias": True},
    "sliding": {"sliding_window": 32},
    "single": {"num_key_value_heads": 1},
}
"""Fields of a config that change layers."""
_PICTURE = Picture(width=56, height=56)
INPUTS = (
    Inputs(images=(_PICTURE,)),
    Inputs(images=(Picture(width=56, height=56, count=40),)),
    Inputs(images=(_PICTURE,), alone=True),
    Inputs(images=(_PICTURE,), videos=(Clip(frames=4, width=56, height=56),)),
)
GRPO: dict[str, object] = {
    "trainer": Trainer.GRPO,
    "loss": Loss.FLASH_CROSS_ENTROPY,
    "rollout": Rollout(),
}
GRPO_ALONE: dict[str, object] = {
    **GRPO,
    "rollout": Rollout(engine=RolloutEngine.TRANSFORMERS),
}
_FUSED: dict[str, object] = {"method": Method.LORA, "lora": Lora(kernels=tuple(LoraKernel))}
_FOAK: dict[str, object] = {"kernels": Kernels.FOAK, "loss": Loss.FUSED_CROSS_ENTROPY}
_OWN_ADAPTER: dict[str, object] = {"method": Method.PEFT, "peft": "adapter"}
LITGPT: tuple[dict[str, object], ...] = (
    {"method": Method.LORA, "lora": Lora(targets=("query", "mlp"))},
    {"method": Method.PEFT, "peft": "lora"},
    _OWN_ADAPTER,
    _OWN_ADAPTER | {"micro_batch_size": 2},
)
"""Adapters that LitGPT's scripts know by their own words."""
_PACKED = _FUSED | {"method": Method.QLORA}
KERNELS: tuple[dict[str, object], ...] = (
    _FUSED,
    _FUSED | {"lora": Lora(kernels=(LoraKernel.MLP,))},
    _FUSED | {"lora": Lora(variant="dora", kernels=tuple(LoraKernel))},
    _FUSED | {"trainer": Trainer.ORPO, "loss": Loss.SELECTIVE},
    *(_PACKED | {"quantization_bits": bits} for bits in (8, 2)),
    *(_PACKED | {"fp32_norms_and_head": prepared} for prepared in (None, False)),
    _FOAK,
    _FOAK | {"trainer": Trainer.ORPO, "loss": Loss.SELECTIVE},
    _FOAK | {"method": Method.LORA, "lora": Lora(variant="dora")},
    *(
        _FOAK | {"method": Method.QLORA, "lora": Lora(), "quantization_bits": bits}
        for bits in (4, 8)
    ),
)
"""Adapters that axolotl's kernels run, all of them first, and steps with foak's."""
LOCAL: dict[str, object] = {
    "precision": MIXED,
    "megatron": MegatronOptions(transformer_impl=TransformerImpl.LOCAL),
}
PREDICTED: dict[str, object] = {
    "precision": MIXED,
    "megatron": MegatronOptions(mtp_num_layers=2),
}
TRAINED: Mapping[str, Sequence[object]] = {
    "framework": tuple(Framework),
    "sequence_length": (48, 63, 64, 600, 2000),
    "gradient_accumulation_steps": (2, 3),
    "precision": (
        *POLICIES.values(),
        _GATHERED,
        replace(BF16, autocast=True),
        *(
            replace(BF16, **{f"{role}_dtype": DType.FP8}, name="custom")  # type: ignore[arg-type]  # each is a dtype
            for role in ("param", "compute", "grad", "master", "main_grad", "optimizer")
        ),
        replace(BF16, param_dtype=DType.FP8, compute_dtype=DType.FP8),
        replace(BF16, grad_dtype=DType.FP32),
        replace(POLICIES["fp32"], compute_dtype=DType.FP16),
        replace(POLICIES["fp32"], autocast=True, name="custom"),
    ),
    "optimizer": ("adamw_fused", "muon", "adamw_8bit", "lion", "onebit_adam", "shampoo"),
    "activation_checkpointing": tuple(Checkpointing),
    "selective_every": (2,),
    "attention": tuple(Attention),
    "loss": tuple(Loss),
    "kernels": tuple(Kernels),
    "trainer": (Trainer.REWARD,),
    "reference": tuple(Reference),
    "completion_length": (32,),
    "rollout": (Rollout(tensor_parallel=3),),
    "evaluation": (
        Evaluation(),
        Evaluation(kept_batches=2),
        Evaluation(sequence_length=100_000),
        Evaluation(loss=Loss.CHUNKED_NLL),
    ),
    "keeps_logits": (True,),
    "fp32_outputs": (False,),
    "padding_mask": (True,),
    "packing": tuple(SequencePacking),
    "sequence_lengths": (((32, 2),),),
    "reentrant_checkpointing": (True,),
    "gradient_clipping": (True,),
    "offload": (
        Offload(optimizer=_CPU),
        Offload(optimizer=_NVME),
        Offload(parameters=_CPU),
        Offload(optimizer=_CPU, parameters=_CPU),
        Offload(optimizer=_NVME, parameters=_NVME),
        Offload(activations=_CPU),
        Offload(activations=_NVME),
    ),
    "framework_version": ("5.1", "2025-03", "never"),
    "compile": (True,),
    "float8": (True,),
    "optimizer_in_backward": (True,),
    "deterministic": (True,),
    "fp32_norms_and_head": (True,),
    "double_quantization": (False,),
    "frozen": (("embedding",), ("nothing",), ("attention", "embedding", "lm_head", "mlp", "norm")),
    "decoder_length": (64, 600),
    "num_images": (1, 2, 40),
    "image_tokens": (1, 16),
    "inputs": INPUTS,
    "audio_frames": (10,),
    "megatron": (
        MegatronOptions(transformer_impl=TransformerImpl.LOCAL),
        MegatronOptions(mtp_num_layers=1),
        MegatronOptions(defer_embedding_wgrad_compute=True),
    ),
}
SERVED: Mapping[str, Sequence[object]] = {
    "engine": tuple(Engine),
    "prompt_tokens": (600,),
    "output_tokens": (1, 600),
    "engine_version": ("1.0",),
    "weight_dtype": (DType.FP16, DType.FP32, DType.FP8),
    "quantization": tuple(Quantization),
    "unquantised": (True,),
    "kv_cache_dtype": (DType.FP16, DType.FP32, DType.FP8),
    "num_beams": (2,),
    "client": (Client.LOOP,),
    "sampling": (Sampling.SAMPLE,),
    "max_model_len": (8, 128, 5000),
    "max_num_batched_tokens": (64,),
    "max_num_sequences": (4,),
    "gpu_memory_fraction": (0.5,),
    "enforce_eager": (True,),
    "attention": tuple(Attention),
    "num_images": (1, 40),
    "image_tokens": (1, 16),
    "inputs": INPUTS,
    "cache": tuple(Cache),
    "kv_pool_bytes": (2**30,),
    "kv_pool_blocks": (512,),
    "kv_pool_tokens": (4096,),
    "speculative": (Speculative(num_tokens=2), Speculative(num_tokens=2, head=DraftHead.MTP)),
    "gpu_layers": (1,),
    "cpu_moe_layers": (1,),
    "tensor_split": ((3.0, 1.0),),
    "cache_type": tuple(CacheType),
    "cpu_offload_gb": (1.0,),
    "max_loras": (2,),
    "max_lora_rank": (8, 9),
    "max_images_per_prompt": (0, 2),
    "max_videos_per_prompt": (0, 2),
    "state_dtype": (DType.FP32, DType.FP8),
}
LAID_OUT: Mapping[str, Sequence[object]] = {
    "data_parallel": (2, 4),
    "tensor_parallel": (2, 3, 4, 8),
    "pipeline_parallel": (2, 3, 8),
    "context_parallel": (2, 3, 4, 8),
    "context_parallel_method": tuple(ContextMethod),
    "expert_parallel": (2, 3, 4),
    "expert_tensor_parallel": (1, 2),
    "virtual_pipeline_stages": (2,),
    "zero_stage": (1, 2, 3),
    "sharding": tuple(Sharding),
    "sequence_parallel": (True,),
    "shard_embeddings_separately": (True,),
    "shard_size": (2,),
    "pipeline_split": (
        PipelineSplit(pipeline_model_parallel_layout="Et*12|m|L"),
        PipelineSplit(pipeline_parallel_last_stage_less_layers=0),
        PipelineSplit(pipeline_layers=(0, 6, 6)),
        PipelineSplit(partition_method="uniform"),
    ),
    "pipeline_schedule": (PipelineSchedule.GPIPE, PipelineSchedule.ONE_F_ONE_B),
}
