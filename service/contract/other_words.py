"""Words of other programs for a setting, and what they mean."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from service.estimator.values.layout import Sharding
from service.estimator.values.losses import Trainer
from service.estimator.values.workload import Engine, Quantization
from service.planner.plans.ceiling_values import Maximized

_NO_CRITIC = "its critic, a second model that learns, has no term; grpo has none"
_BITS = (
    "say 'nf4' (bitsandbytes), 'gptq_int4', 'awq_int4', 'mxfp4' or 'nvfp4', of llama.cpp 'q4_k_m'"
)
_GGUF_TYPES = (
    "by this name a file of this type has no term; the file itself has, type by type: give its "
    "header as model.gguf, of a command model.gguf in place of the name; the nearest type is"
)
_CONTEXT = (
    "say 'max_model_len', the longest sequence that an engine accepts, or 'sequence_length'",
    Maximized.MAX_MODEL_LEN,
)
_BATCH = (
    "say 'micro_batch_size' or 'global_batch_size', of serving 'num_sequences'",
    Maximized.MICRO_BATCH_SIZE,
)
_LOAD = ("say 'num_sequences', those that run at once", Maximized.NUM_SEQUENCES)
_MEANINGS: Mapping[type[StrEnum], Mapping[str, tuple[str, StrEnum]]] = MappingProxyType(
    {
        Trainer: {
            "sft": ("say 'supervised'", Trainer.SUPERVISED),
            "pretrain": ("say 'supervised'", Trainer.SUPERVISED),
            "ppo": (f"{_NO_CRITIC}: say 'grpo'", Trainer.GRPO),
            "rm": ("say 'reward'", Trainer.REWARD),
            "ipo": ("it is a loss of TRL's dpo: say 'dpo'", Trainer.DPO),
            "rloo": ("say 'grpo', which has the same phases and tensors", Trainer.GRPO),
            "dapo": ("it is a loss of grpo: say 'grpo'", Trainer.GRPO),
        },
        Engine: {
            "tei": (
                "Text Embeddings Inference has no term: say 'vllm' or 'sglang', which pool too",
                Engine.VLLM,
            ),
            "ollama": ("it runs llama.cpp: say 'llama_cpp'", Engine.LLAMA_CPP),
            "lmstudio": ("it runs llama.cpp: say 'llama_cpp'", Engine.LLAMA_CPP),
            "hf": ("say 'transformers'", Engine.TRANSFORMERS),
            "mlx": ("it runs on Apple silicon, of which nothing here has a term", Engine.LLAMA_CPP),
            "exllama": ("it has no term: say 'vllm' with gptq_int4", Engine.VLLM),
            "exllamav2": ("it has no term: say 'vllm' with gptq_int4", Engine.VLLM),
            "exllamav3": ("it has no term: say 'vllm' with gptq_int4", Engine.VLLM),
            "nim": ("its containers run vLLM, SGLang or TensorRT-LLM: say which", Engine.VLLM),
        },
        Quantization: {
            "4bit": (_BITS, Quantization.NF4),
            "int4": (_BITS, Quantization.GPTQ_INT4),
            "fp4": (_BITS, Quantization.NVFP4),
            "bitsandbytes": ("say 'nf4' for its 4 bits, 'int8' for 8", Quantization.NF4),
            "bnb": ("say 'nf4' for its 4 bits, 'int8' for 8", Quantization.NF4),
            "8bit": ("say 'int8', of llama.cpp 'q8_0'", Quantization.INT8),
            "w8a8": ("say 'int8', or 'fp8'", Quantization.INT8),
            "gguf": (
                "say its type: 'q4_k_m', 'q4_0', 'q5_k_m', 'q6_k' or 'q8_0'",
                Quantization.Q4_K_M,
            ),
            "q2_k": (f"{_GGUF_TYPES} 'q4_0'", Quantization.Q4_0),
            "q3_k_m": (f"{_GGUF_TYPES} 'q4_0'", Quantization.Q4_0),
            "q4_k_s": (f"{_GGUF_TYPES} 'q4_k_m'", Quantization.Q4_K_M),
            "q5_k_s": (f"{_GGUF_TYPES} 'q5_k_m'", Quantization.Q5_K_M),
            "iq4_xs": (f"{_GGUF_TYPES} 'q4_0'", Quantization.Q4_0),
            "iq4_nl": (f"{_GGUF_TYPES} 'q4_0'", Quantization.Q4_0),
        },
        Maximized: {
            **dict.fromkeys(("context", "context_length", "ctx_size", "max_seq_len"), _CONTEXT),
            **dict.fromkeys(("prompt_tokens", "tokens"), _CONTEXT),
            **dict.fromkeys(("batch", "batch_size"), _BATCH),
            **dict.fromkeys(("concurrency", "requests", "users", "max_num_seqs"), _LOAD),
            "rank": ("say 'lora_rank'", Maximized.LORA_RANK),
            "images": ("say 'num_images'", Maximized.NUM_IMAGES),
            "parameters": ("say 'num_parameters'", Maximized.NUM_PARAMETERS),
            "model_size": ("say 'num_parameters'", Maximized.NUM_PARAMETERS),
        },
        Sharding: {
            "fsdp": ("say 'fsdp2', PyTorch's fully_shard, or 'fsdp1', its class", Sharding.FSDP2),
            "zero1": ("say 'deepspeed' with zero_stage 1", Sharding.DEEPSPEED),
            "zero2": ("say 'deepspeed' with zero_stage 2", Sharding.DEEPSPEED),
            "zero3": ("say 'deepspeed' with zero_stage 3", Sharding.DEEPSPEED),
        },
    }
)


def explain_other_word(kind: type[StrEnum], word: str) -> tuple[str, str] | None:
    """Return what would be right, and the nearest value."""
    meaning = _MEANINGS.get(kind, {}).get(word.casefold())
    if meaning is None:
        return None
    text, nearest = meaning
    return f"unknown value {word!r}: {text}", nearest.value


def list_other_words(kind: type[StrEnum]) -> Mapping[str, str]:
    """Return the values that other programs' words come nearest to."""
    return {word: nearest.value for word, (_, nearest) in _MEANINGS.get(kind, {}).items()}
