"""Fields of a case that rules refer to."""

from service.estimator.model.weights.scheme import Packing
from service.estimator.rules.grammar.conditions import Field
from service.estimator.values.batches import Evaluation, Inputs, Lengths, SequencePacking
from service.estimator.values.dtypes import CacheType, DType
from service.estimator.values.generation import Client, Critic, Rollout, Sampling
from service.estimator.values.layout import ContextMethod, Sharding
from service.estimator.values.losses import Kernels, Loss, Reference, Trainer
from service.estimator.values.megatron import MegatronOptions, TransformerImpl
from service.estimator.values.pipeline import PipelineSchedule, PipelineSplit
from service.estimator.values.precision import Precision
from service.estimator.values.speculative import Speculative
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

TOKENS: Field[int] = Field("tokens")
LONGEST: Field[int] = Field("longest")
STORED_AS: Field[str] = Field("stored_as")


class ModelFields:
    """Facts of the model."""

    family: Field[str] = Field("model.family")
    num_attention_heads: Field[int] = Field("model.num_attention_heads")
    num_key_value_heads: Field[int] = Field("model.num_key_value_heads")
    hidden_size: Field[int] = Field("model.hidden_size")
    intermediate_size: Field[int] = Field("model.intermediate_size")
    num_hidden_layers: Field[int] = Field("model.num_hidden_layers")
    num_experts: Field[int] = Field("model.num_experts")
    expert_layers: Field[int] = Field("model.expert_layers")
    learned_positions: Field[int] = Field("model.learned_positions")
    limited_positions: Field[int] = Field("model.limited_positions")
    tied: Field[bool] = Field("model.tied")
    quantized: Field[bool] = Field("model.quantized")
    packing: Field[Packing | None] = Field("model.packing")
    converts: Field[bool] = Field("model.converts")
    from_gguf: Field[bool] = Field("model.from_gguf")
    recurrent: Field[bool] = Field("model.recurrent")
    attends: Field[bool] = Field("model.attends")
    decoder: Field[bool] = Field("model.decoder")
    pooled: Field[bool] = Field("model.pooled")
    head: Field[str] = Field("model.head")
    num_labels: Field[int] = Field("model.num_labels")
    alternates: Field[bool] = Field("model.alternates")
    caps_scores: Field[bool] = Field("model.caps_scores")
    biases_scores: Field[bool] = Field("model.biases_scores")
    keeps_fp32: Field[bool] = Field("model.keeps_fp32")
    clamps_half: Field[bool] = Field("model.clamps_half")
    has_encoder: Field[bool] = Field("model.has_encoder")
    has_images: Field[bool] = Field("model.has_images")
    shares_weights: Field[bool] = Field("model.shares_weights")
    recorded: Field[bool] = Field("model.recorded")
    reads_text: Field[bool] = Field("model.reads_text")
    trains: Field[bool] = Field("model.trains")
    fewest_sequences: Field[int] = Field("model.fewest_sequences")
    longest_sequence: Field[int] = Field("model.longest_sequence")


class LayoutFields:
    """Degrees of parallelism, and who shards."""

    data_parallel: Field[int] = Field("layout.data_parallel")
    tensor_parallel: Field[int] = Field("layout.tensor_parallel")
    pipeline_parallel: Field[int] = Field("layout.pipeline_parallel")
    context_parallel: Field[int] = Field("layout.context_parallel")
    expert_parallel: Field[int] = Field("layout.expert_parallel")
    context_parallel_method: Field[ContextMethod] = Field("layout.context_parallel_method")
    expert_tensor_parallel: Field[int | None] = Field("layout.expert_tensor_parallel")
    virtual_pipeline_stages: Field[int] = Field("layout.virtual_pipeline_stages")
    pipeline_split: Field[PipelineSplit] = Field("layout.pipeline_split")
    pipeline_schedule: Field[PipelineSchedule | None] = Field("layout.pipeline_schedule")
    sharding: Field[Sharding] = Field("layout.sharding")
    zero_stage: Field[int] = Field("layout.zero_stage")
    shard_size: Field[int | None] = Field("layout.shard_size")
    shards: Field[int] = Field("layout.shards")
    num_gpus: Field[int] = Field("layout.num_gpus")
    sequence_parallel: Field[bool] = Field("layout.sequence_parallel")
    shard_embeddings_separately: Field[bool] = Field("layout.shard_embeddings_separately")


class WorkloadFields:
    """Settings of a training step or of a replica."""

    framework: Field[Framework] = Field("workload.framework")
    framework_version: Field[str | None] = Field("workload.framework_version")
    method: Field[Method] = Field("workload.method")
    peft: Field[str | None] = Field("workload.peft")
    lora: Field[Lora | None] = Field("workload.lora")
    frozen: Field[tuple[str, ...]] = Field("workload.frozen")
    sequence_length: Field[int] = Field("workload.sequence_length")
    decoder_length: Field[int | None] = Field("workload.decoder_length")
    audio_frames: Field[int | None] = Field("workload.audio_frames")
    num_images: Field[int | None] = Field("workload.num_images")
    image_tokens: Field[int | None] = Field("workload.image_tokens")
    inputs: Field[Inputs | None] = Field("workload.inputs")
    micro_batch_size: Field[int] = Field("workload.micro_batch_size")
    gradient_accumulation_steps: Field[int] = Field("workload.gradient_accumulation_steps")
    gradient_clipping: Field[bool] = Field("workload.gradient_clipping")
    optimizer: Field[str] = Field("workload.optimizer")
    optimizer_in_backward: Field[bool] = Field("workload.optimizer_in_backward")
    trainer: Field[Trainer] = Field("workload.trainer")
    reference: Field[Reference | None] = Field("workload.reference")
    rollout: Field[Rollout | None] = Field("workload.rollout")
    critic: Field[Critic | None] = Field("workload.critic")
    evaluation: Field[Evaluation | None] = Field("workload.evaluation")
    loss: Field[Loss] = Field("workload.loss")
    kernels: Field[Kernels] = Field("workload.kernels")
    keeps_logits: Field[bool] = Field("workload.keeps_logits")
    fp32_outputs: Field[bool] = Field("workload.fp32_outputs")
    padding_mask: Field[bool] = Field("workload.padding_mask")
    packing: Field[SequencePacking] = Field("workload.packing")
    sequence_lengths: Field[Lengths] = Field("workload.sequence_lengths")
    activation_checkpointing: Field[Checkpointing] = Field("workload.activation_checkpointing")
    selective_every: Field[int | None] = Field("workload.selective_every")
    reentrant_checkpointing: Field[bool] = Field("workload.reentrant_checkpointing")
    attention: Field[Attention] = Field("workload.attention")
    compile: Field[bool] = Field("workload.compile")
    float8: Field[bool] = Field("workload.float8")
    deterministic: Field[bool] = Field("workload.deterministic")
    double_quantization: Field[bool] = Field("workload.double_quantization")
    quantization_bits: Field[int] = Field("workload.quantization_bits")
    fp32_norms_and_head: Field[bool | None] = Field("workload.fp32_norms_and_head")
    offload: Field[Offload] = Field("workload.offload")
    megatron: Field[MegatronOptions] = Field("workload.megatron")
    precision: Field[Precision] = Field("workload.precision")
    engine: Field[Engine] = Field("workload.engine")
    engine_version: Field[str | None] = Field("workload.engine_version")
    quantization: Field[Quantization] = Field("workload.quantization")
    unquantised: Field[bool] = Field("workload.unquantised")
    weight_dtype: Field[DType] = Field("workload.weight_dtype")
    kv_cache_dtype: Field[DType] = Field("workload.kv_cache_dtype")
    cache: Field[Cache] = Field("workload.cache")
    num_beams: Field[int] = Field("workload.num_beams")
    client: Field[Client] = Field("workload.client")
    sampling: Field[Sampling] = Field("workload.sampling")
    prompt_tokens: Field[int] = Field("workload.prompt_tokens")
    output_tokens: Field[int] = Field("workload.output_tokens")
    num_sequences: Field[int] = Field("workload.num_sequences")
    max_model_len: Field[int | None] = Field("workload.max_model_len")
    max_num_batched_tokens: Field[int | None] = Field("workload.max_num_batched_tokens")
    max_num_sequences: Field[int | None] = Field("workload.max_num_sequences")
    gpu_layers: Field[int | None] = Field("workload.gpu_layers")
    cpu_moe_layers: Field[int | None] = Field("workload.cpu_moe_layers")
    tensor_split: Field[tuple[float, ...] | None] = Field("workload.tensor_split")
    cache_type: Field[CacheType | None] = Field("workload.cache_type")
    cpu_offload_gb: Field[float | None] = Field("workload.cpu_offload_gb")
    max_loras: Field[int | None] = Field("workload.max_loras")
    max_lora_rank: Field[int | None] = Field("workload.max_lora_rank")
    max_images_per_prompt: Field[int | None] = Field("workload.max_images_per_prompt")
    max_videos_per_prompt: Field[int | None] = Field("workload.max_videos_per_prompt")
    state_dtype: Field[DType | None] = Field("workload.state_dtype")
    gpu_memory_fraction: Field[float | None] = Field("workload.gpu_memory_fraction")
    kv_pool_bytes: Field[int | None] = Field("workload.kv_pool_bytes")
    kv_pool_blocks: Field[int | None] = Field("workload.kv_pool_blocks")
    kv_pool_tokens: Field[int | None] = Field("workload.kv_pool_tokens")
    enforce_eager: Field[bool] = Field("workload.enforce_eager")
    speculative: Field[Speculative | None] = Field("workload.speculative")


class LoraFields:
    """Adapters, where there are any."""

    dtype: Field[DType] = Field("workload.lora.dtype")
    targets: Field[tuple[str, ...] | None] = Field("workload.lora.targets")
    variant: Field[str] = Field("workload.lora.variant")


class OffloadFields:
    """Parts that are kept off the GPU."""

    optimizer: Field[OffloadTarget] = Field("workload.offload.optimizer")
    parameters: Field[OffloadTarget] = Field("workload.offload.parameters")
    activations: Field[OffloadTarget] = Field("workload.offload.activations")


class MegatronFields:
    """Arguments of Megatron-LM alone."""

    transformer_impl: Field[TransformerImpl] = Field("workload.megatron.transformer_impl")
    mtp_num_layers: Field[int] = Field("workload.megatron.mtp_num_layers")
    defers_gradient: Field[bool] = Field("workload.megatron.defer_embedding_wgrad_compute")


class PrecisionFields:
    """Number formats of a training step."""

    param_dtype: Field[DType] = Field("workload.precision.param_dtype")
    compute_dtype: Field[DType] = Field("workload.precision.compute_dtype")
    main_grad_dtype: Field[DType | None] = Field("workload.precision.main_grad_dtype")
    master_dtype: Field[DType | None] = Field("workload.precision.master_dtype")
    autocast: Field[bool] = Field("workload.precision.autocast")
    grad_dtype: Field[DType] = Field("workload.precision.grad_dtype")
    optimizer_dtype: Field[DType] = Field("workload.precision.optimizer_dtype")


model = ModelFields
layout = LayoutFields
workload = WorkloadFields
lora = LoraFields
offload = OffloadFields
megatron = MegatronFields
precision = PrecisionFields
