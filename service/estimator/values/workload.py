"""Workloads in the contract's words: a training step or a serving replica."""

from dataclasses import dataclass, field
from enum import StrEnum

from service.estimator.values.adapters.lora_kernels import LoraKernel
from service.estimator.values.batches import (
    Evaluation,
    Inputs,
    Lengths,
    SequencePacking,
    check_at_least,
    check_probability,
    get_row_length,
)
from service.estimator.values.dtypes import CacheType, DType
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.generation import Client, Critic, Rollout, Sampling, check_policy
from service.estimator.values.losses import PAIRED_TRAINERS, Kernels, Loss, Reference, Trainer
from service.estimator.values.megatron import MegatronOptions
from service.estimator.values.optimizers import OptimizerName
from service.estimator.values.precision import POLICIES, Precision
from service.estimator.values.speculative import Speculative


class Framework(StrEnum):
    """Framework whose model code runs; each keeps other tensors for backward."""

    TRANSFORMERS = "transformers"
    MEGATRON = "megatron"
    TORCHTITAN = "torchtitan"
    LITGPT = "litgpt"


class Method(StrEnum):
    """Training method, which decides the trained parameters."""

    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"
    PEFT = "peft"


class Checkpointing(StrEnum):
    """Activation checkpointing: recomputation in backward."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Attention(StrEnum):
    """Attention kernel; ``sdpa`` is the one that CUDA would choose."""

    EAGER = "eager"
    SDPA = "sdpa"
    FLASH = "flash"
    EFFICIENT = "efficient"
    MATH = "math"


class OffloadTarget(StrEnum):
    """Place of an offloaded part of the state."""

    NONE = "none"
    CPU = "cpu"
    NVME = "nvme"


class Engine(StrEnum):
    """Serving engine."""

    TRANSFORMERS = "transformers"
    VLLM = "vllm"
    SGLANG = "sglang"
    TENSORRT_LLM = "tensorrt_llm"
    LLAMA_CPP = "llama_cpp"
    LMDEPLOY = "lmdeploy"
    TGI = "tgi"


class Allocator(StrEnum):
    """Segments of PyTorch's allocator, fixed or growing (``PYTORCH_CUDA_ALLOC_CONF``)."""

    DEFAULT = "default"
    EXPANDABLE_SEGMENTS = "expandable_segments"


class Quantization(StrEnum):
    """Format of the served weights, the last five mixtures of GGUF files."""

    NONE = "none"
    INT8 = "int8"
    NF4 = "nf4"
    GPTQ_INT4 = "gptq_int4"
    AWQ_INT4 = "awq_int4"
    FP8 = "fp8"
    MXFP4 = "mxfp4"
    NVFP4 = "nvfp4"
    Q8_0 = "q8_0"
    Q6_K = "q6_k"
    Q5_K_M = "q5_k_m"
    Q4_K_M = "q4_k_m"
    Q4_0 = "q4_0"


class Cache(StrEnum):
    """Layout of the key/value cache in an engine."""

    DYNAMIC = "dynamic"
    STATIC = "static"
    PAGED = "paged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """Low-rank adapters on named linear layers, ``dropout`` before them (arXiv:2106.09685)."""

    rank: int = 16
    targets: tuple[str, ...] | None = None
    """Layers by name; None is every linear layer but the head."""
    dtype: DType = DType.FP32
    variant: str = "lora"
    dropout: float = 0.0
    kernels: tuple[LoraKernel, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a rank below one, no targets, and what is no probability."""
        check_at_least("workload.lora.rank", self.rank)
        check_probability("workload.lora.dropout", self.dropout)
        if self.targets == ():
            message = 'target_modules is empty; name at least one linear layer or say "all-linear"'
            raise InvalidInputError(message, field="workload.lora.target_modules")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """Targets of the parts that are kept off the GPU."""

    optimizer: OffloadTarget = OffloadTarget.NONE
    parameters: OffloadTarget = OffloadTarget.NONE
    activations: OffloadTarget = OffloadTarget.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainWorkload:
    """One optimizer step; micro batches are of sequences or pairs."""

    sequence_length: int
    micro_batch_size: int = 1
    gradient_accumulation_steps: int = 1
    framework: Framework = Framework.TRANSFORMERS
    method: Method = Method.FULL
    precision: Precision = field(default_factory=lambda: POLICIES["bf16_mixed"])
    optimizer: str = OptimizerName.ADAMW
    activation_checkpointing: Checkpointing = Checkpointing.NONE
    attention: Attention = Attention.SDPA
    trainer: Trainer = Trainer.SUPERVISED
    reference: Reference | None = None
    completion_length: int | None = None
    """With trainer ``grpo``: tokens of a sequence that were generated; None is every one."""
    log_prob_batch_size: int | None = None
    entropy_bonus: bool = False
    """With trainer ``grpo``: the loss has the entropy in it, as verl computes it."""
    rollout: Rollout | None = None
    """With trainer ``grpo``: the engine on the same GPUs; None is one elsewhere."""
    critic: Critic | None = None
    evaluation: Evaluation | None = None
    loss: Loss = Loss.FULL_LOGITS
    kernels: Kernels = Kernels.TORCH
    keeps_logits: bool = False
    packing: SequencePacking = SequencePacking.NONE
    sequence_lengths: Lengths = ()
    fp32_outputs: bool = True
    """Under autocast, what the model returns is cast to fp32 (accelerate, so Trainer and TRL)."""
    padding_mask: bool = False
    reentrant_checkpointing: bool = False
    """Checkpoints of ``use_reentrant=True``, transformers' default before release 5."""
    gradient_clipping: bool = False
    allocator: Allocator = Allocator.DEFAULT
    lora: Lora | None = None
    offload: Offload = field(default_factory=Offload)
    selective_every: int | None = None
    """Recompute every so many layers; None recomputes what the framework picks in each."""
    framework_version: str | None = None
    compile: bool = False
    float8: bool = False
    optimizer_in_backward: bool = False
    deterministic: bool = False
    """Kernels of the same bits each time (``CUBLAS_WORKSPACE_CONFIG=:4096:8``)."""
    fp32_norms_and_head: bool | None = False
    """PEFT's ``prepare_model_for_kbit_training``; None: where no weights are sharded (axolotl)."""
    double_quantization: bool = True
    quantization_bits: int = 4
    """With method ``qlora``: 4 is nf4, 8 LLM.int8(), both bitsandbytes'; 2 is GPTQ's."""
    peft: str | None = None
    frozen: tuple[str, ...] = ()
    """Kinds of modules, as ``ParameterCounts.by_module`` names them, that are not trained."""
    decoder_length: int | None = None
    num_images: int | None = None
    image_tokens: int | None = None
    inputs: Inputs | None = None
    audio_frames: int | None = None
    num_tokens: int | None = None
    save_total_limit: int | None = None
    megatron: MegatronOptions = field(default_factory=MegatronOptions)

    def __post_init__(self) -> None:
        """Refuse counts below one and a method that contradicts its adapters."""
        for name in ("sequence_length", "micro_batch_size", "gradient_accumulation_steps"):
            check_at_least(f"workload.{name}", getattr(self, name))
        if (adapts := self.method in {Method.LORA, Method.QLORA}) is (self.lora is not None):
            self._check_options()
            return
        message = f"method {self.method.value!r} needs adapters"
        if not adapts:
            message = f'"lora" is given but method is {self.method.value!r}, not "lora" or "qlora"'
        raise InvalidInputError(message, field="workload.lora")

    @property
    def num_sequences(self) -> int:
        """Sequences that one micro batch runs at once, two for each pair."""
        return self.micro_batch_size * (2 if self.trainer in PAIRED_TRAINERS else 1)

    @property
    def rows(self) -> tuple[int, int]:
        """Number and tokens of the rows of the worst micro batch."""
        number, longest = self.num_sequences, self.sequence_length
        kind, lengths = self.packing, self.sequence_lengths
        length = get_row_length(kind, lengths, num_sequences=number, max_length=longest)
        return number if kind is SequencePacking.NONE else 1, length

    def _check_options(self) -> None:
        if (bits := self.quantization_bits) not in {2, 4, 8}:
            message = f"quantization_bits is {bits}; qlora has 4 (nf4), 8 (LLM.int8()), 2 (GPTQ)"
            raise InvalidInputError(message, field="workload.quantization_bits")
        check_policy(self)
        if (self.peft is not None) != (self.method is Method.PEFT):
            message = f'"peft" goes with method "peft": {self.method.value!r} has {self.peft!r}'
            raise InvalidInputError(message, field="workload.peft")
        every, kind = self.selective_every, self.activation_checkpointing
        if every is not None and kind is not Checkpointing.SELECTIVE:
            message = f'recomputing one layer in {every} is said as {{"selective": {every}}}'
            raise InvalidInputError(message, field="workload.activation_checkpointing")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeWorkload:
    """One serving replica with ``num_sequences`` at once."""

    num_sequences: int
    prompt_tokens: int
    output_tokens: int = 0
    engine: Engine = Engine.TRANSFORMERS
    engine_version: str | None = None
    weight_dtype: DType = DType.BF16
    quantization: Quantization = Quantization.NONE
    unquantised: bool = False
    """Whether the request says "none"; else a config that quantises its weights decides."""
    kv_cache_dtype: DType = DType.BF16
    num_beams: int = 1
    client: Client = Client.GENERATE
    sampling: Sampling = Sampling.GREEDY
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_sequences: int | None = None
    gpu_memory_fraction: float | None = None
    kv_pool_bytes: int | None = None
    kv_pool_blocks: int | None = None
    kv_pool_tokens: int | None = None
    enforce_eager: bool = False
    speculative: Speculative | None = None
    attention: Attention = Attention.SDPA
    num_images: int | None = None
    image_tokens: int | None = None
    inputs: Inputs | None = None
    cache: Cache = Cache.DYNAMIC
    allocator: Allocator = Allocator.DEFAULT
    gpu_layers: int | None = None
    cpu_moe_layers: int | None = None
    tensor_split: tuple[float, ...] | None = None
    cache_type: CacheType | None = None
    cpu_offload_gb: float | None = None
    max_loras: int | None = None
    max_lora_rank: int | None = None
    max_images_per_prompt: int | None = None
    max_videos_per_prompt: int | None = None
    state_dtype: DType | None = None

    def resolve_max_model_len(self, max_positions: int) -> int:
        """Return the requested length, else the model's, else a sequence's."""
        return self.max_model_len or max_positions or self.prompt_tokens + self.output_tokens

    def __post_init__(self) -> None:
        """Refuse counts below one."""
        for name in ("num_sequences", "prompt_tokens", "num_beams", "output_tokens"):
            check_at_least(f"workload.{name}", getattr(self, name), int(name != "output_tokens"))


Workload = TrainWorkload | ServeWorkload
