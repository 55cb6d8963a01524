"""Rules of framework ``megatron``: Megatron-LM's pretrain_gpt.py with Megatron Core."""

from service.estimator.rules.grammar.conditions import (
    Field,
    is_above,
    is_at_most,
    is_false,
    is_in,
    is_same,
)
from service.estimator.rules.grammar.fields import layout, model, offload, precision, workload
from service.estimator.rules.grammar.rule import (
    NO_TERM,
    OTHERS,
    Rule,
    RuleTable,
    ShardingOption,
    Topic,
    invalid,
    unmodelled,
)
from service.estimator.rules.tables.megatron_options import MEGATRON_OPTIONS
from service.estimator.rules.tables.recorded import RECORDED_ELSEWHERE
from service.estimator.rules.tables.training.evaluations import make_refusal
from service.estimator.rules.tables.training.heads import make_head_rule
from service.estimator.rules.tables.training.megatron_layouts import MEGATRON_LAYOUTS
from service.estimator.rules.tables.training.weights import READS_NO_GGUF
from service.estimator.values.batches import SequencePacking
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Sharding
from service.estimator.values.losses import Kernels, Loss, Trainer
from service.estimator.values.workload import Attention, Method, Offload, OffloadTarget

FAMILIES = (
    *("deepseek_v2", "deepseek_v3", "gpt2", "llama", "mistral", "mixtral", "nemotron", "phi3"),
    *("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3", "starcoder2"),
)
"""Decoders that Megatron Core's GPT model builds from its arguments alone."""

_CORE = "Megatron-LM, megatron/core"

_POSITIONS = (
    "{workload.sequence_length} tokens, but {model.family} has learned positions for "
    "{model.learned_positions}"
)

_REASONS = {
    name: f"{name} in framework megatron"
    for name in (
        *("compile", "float8", "keeps_logits", "padding_mask", "reentrant_checkpointing"),
        "optimizer_in_backward",
    )
} | {"selective_every": "Megatron recomputes the attention core or whole layers"}
"""What the planner says of words without a term; it is not asked of the others."""

_SOURCES = {"selective_every": "Megatron-LM, --recompute-granularity"}

_DEFAULTS: dict[str, object] = {
    "keeps_logits": False,
    "fp32_outputs": True,
    "padding_mask": False,
    "reentrant_checkpointing": False,
    "selective_every": None,
    "framework_version": None,
    "compile": False,
    "float8": False,
    "optimizer_in_backward": False,
    "fp32_norms_and_head": False,
    "frozen": (),
    "decoder_length": None,
    "num_images": None,
    "image_tokens": None,
    "inputs": None,
    "audio_frames": None,
}
"""Words without a term, with the value that changes nothing."""


def _refuse_word(field: Field[object], default: object) -> Rule:
    """Return the rule that a field keeps its default."""
    name = field.path.removeprefix("workload.")
    return Rule(
        require=is_in(field, default),
        topic=Topic.WORDS,
        refusal=unmodelled(
            lambda case: f"{name} {getattr(case.workload, name)!r} in framework megatron",
            str(default),
        ),
        reason=_REASONS.get(name),
        source=_SOURCES.get(name, NO_TERM),
    )


_CAST = unmodelled(
    "a compute dtype beside that of the weights",
    *("megatron_bf16", "bf16_mixed", "fp16_mixed"),
    field="workload.precision",
)

_OFFLOAD = "offload in framework megatron"

_RULES = (
    READS_NO_GGUF,
    make_head_rule("framework megatron", field="model"),
    Rule(
        require=is_in(model.family, *FAMILIES),
        topic=Topic.MODEL,
        refusal=unmodelled("{model.family} in framework megatron", *FAMILIES, field="model"),
        reason="Megatron's GPT model is not built as {model.family} from its arguments alone",
        source="Megatron-LM, gpt_builders.py and megatron/training/arguments.py",
    ),
    Rule(
        require=is_in(workload.method, Method.FULL),
        topic=Topic.METHOD,
        refusal=OTHERS,
        reason="adapters in framework megatron",
    ),
    Rule(
        require=is_in(workload.optimizer, "adamw", "adamw_fused", "sgd", "sgd_momentum"),
        topic=Topic.OPTIMIZER,
        refusal=OTHERS,
        reason="Megatron builds fused Adam and SGD, not {workload.optimizer}",
        source=f"{_CORE}/optimizer/__init__.py",
    ),
    Rule(
        require=is_in(workload.attention, Attention.SDPA, Attention.FLASH, Attention.EAGER),
        topic=Topic.ATTENTION,
        refusal=OTHERS,
        reason="attention {workload.attention} in framework megatron",
        source="Megatron-LM, --attention-backend",
    ),
    Rule(
        when=is_above(layout.context_parallel, 1),
        require=is_in(workload.attention, Attention.SDPA, Attention.FLASH),
        reason="context_parallel runs on Transformer Engine's attention, not on unfused scores",
        source=f"{_CORE}/transformer/dot_product_attention.py: context parallelism is only "
        "supported by TEDotProductAttention",
    ),
    Rule(
        require=is_in(workload.trainer, Trainer.SUPERVISED),
        topic=Topic.LOSS,
        refusal=OTHERS,
        reason="trainer {workload.trainer} in framework megatron",
    ),
    make_refusal("megatron"),
    Rule(
        require=is_in(workload.packing, SequencePacking.NONE),
        topic=Topic.LOSS,
        refusal=OTHERS,
        reason="packing {workload.packing} in framework megatron, which packs by itself",
    ),
    Rule(
        require=is_in(workload.sequence_lengths, ()),
        topic=Topic.LOSS,
        refusal=OTHERS,
        reason="sequence_lengths in framework megatron, whose sequences are packed already",
    ),
    Rule(
        require=is_in(workload.kernels, Kernels.TORCH),
        topic=Topic.LOSS,
        refusal=OTHERS,
        reason="kernels {workload.kernels} in framework megatron, which has its own",
    ),
    Rule(
        require=is_in(workload.loss, Loss.FULL_LOGITS, Loss.FUSED_CROSS_ENTROPY),
        topic=Topic.LOSS,
        refusal=OTHERS,
        reason="loss {workload.loss} in framework megatron",
        source="Megatron-LM, --cross-entropy-loss-fusion",
    ),
    *(
        Rule(require=is_in(part, OffloadTarget.NONE), reason=_OFFLOAD)
        for part in (offload.optimizer, offload.parameters, offload.activations)
    ),
    Rule(
        require=is_in(workload.offload, Offload()),
        topic=Topic.OFFLOAD,
        refusal=unmodelled(_OFFLOAD, "none"),
    ),
    *(_refuse_word(Field(f"workload.{name}"), default) for name, default in _DEFAULTS.items()),
    Rule(
        require=is_false(precision.autocast),
        topic=Topic.PRECISION,
        refusal=_CAST,
        reason="Megatron keeps its weights in the dtype that it computes in",
        source="Megatron-LM, --bf16 and --fp16",
    ),
    Rule(
        require=is_same(precision.compute_dtype, precision.param_dtype),
        topic=Topic.PRECISION,
        refusal=_CAST,
        reason="Megatron keeps its weights in the dtype that it computes in",
        source="Megatron-LM, --bf16 and --fp16",
    ),
    Rule(
        require=is_in(precision.param_dtype, DType.BF16, DType.FP16),
        topic=Topic.PRECISION,
        refusal=OTHERS,
        reason="weights of Megatron in {workload.precision.param_dtype}",
    ),
    *MEGATRON_OPTIONS,
    *MEGATRON_LAYOUTS,
    Rule(
        when=is_above(model.learned_positions, 0),
        require=is_at_most(workload.sequence_length, model.learned_positions),
        topic=Topic.SEQUENCE,
        refusal=invalid(_POSITIONS),
        reason=_POSITIONS,
        source="the model's position table (max_position_embeddings)",
    ),
)

TRAIN_MEGATRON = RuleTable(
    name="train_megatron",
    rules=(*RECORDED_ELSEWHERE, *_RULES),
    topics=(
        *(Topic.MODEL, Topic.METHOD, Topic.LOSS, Topic.OPTIMIZER, Topic.ATTENTION, Topic.WORDS),
        *(Topic.OFFLOAD, Topic.PRECISION, Topic.SEQUENCE, Topic.SHARDING, Topic.SEPARATE),
        *(Topic.STAGES, Topic.DIVISIBLE, Topic.SLICES, Topic.EXPERTS),
    ),
    sharding_options=(
        ShardingOption(
            sharding=Sharding.MEGATRON,
            zero_stages=(0, 1),
            source=f"{_CORE}/optimizer/distrib_optimizer.py: --use-distributed-optimizer is stage "
            "1",
        ),
    ),
)
