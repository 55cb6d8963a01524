"""Rules of framework ``litgpt``: the fine-tuning scripts of LitGPT on one GPU."""

from service.estimator.model.weights.scheme import Packing
from service.estimator.rules.grammar.conditions import (
    Field,
    is_at_most,
    is_given,
    is_in,
    is_not_in,
    satisfies,
)
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import layout, model, workload
from service.estimator.rules.grammar.rule import (
    NO_TERM,
    Rule,
    RuleTable,
    Topic,
    invalid,
    unmodelled,
)
from service.estimator.rules.predicates.adapters import get_lora
from service.estimator.rules.predicates.models import get_training
from service.estimator.rules.tables.megatron_options import make_options_rule
from service.estimator.rules.tables.recorded import RECORDED_ELSEWHERE
from service.estimator.rules.tables.training.evaluations import make_refusal
from service.estimator.rules.tables.training.heads import make_head_rule
from service.estimator.rules.tables.training.weights import READS_NO_GGUF
from service.estimator.values.batches import SequencePacking
from service.estimator.values.losses import Kernels, Loss, Trainer
from service.estimator.values.precision import POLICIES
from service.estimator.values.releases.litgpt import TARGETS, Adapter, find_code, is_litgpt_version
from service.estimator.values.workload import (
    Attention,
    Checkpointing,
    Method,
    Offload,
)

FAMILIES = ("falcon", "gemma", "gpt_neox", "llama", "mistral", "phi", "phi3", "qwen2", "stablelm")
"""Families whose LitGPT ``Config`` was read; all others of its list have switches more."""
OPTIMIZERS = (
    *("adamw", "adamw_fused", "adamw_loop", "adamw_bnb", "adamw_8bit", "paged_adamw"),
    *("paged_adamw_8bit", "sgd", "sgd_momentum"),
)
"""Optimizers of torch and bitsandbytes, by which ``instantiate_torch_optimizer`` makes them."""
_LAYERS_WITHOUT_PROMPT = 2
_TRUE = tuple(POLICIES[name] for name in ("bf16", "fp16", "fp32"))
_SCRIPTS = "LitGPT 0.5.13, litgpt/finetune"
_DEFAULTS: dict[str, tuple[object, ...]] = {
    "activation_checkpointing": (Checkpointing.NONE,),
    "attention": (Attention.SDPA, Attention.FLASH),
    "compile": (False,),
    "decoder_length": (None,),
    "deterministic": (False,),
    "float8": (False,),
    "fp32_norms_and_head": (False, None),
    "frozen": ((),),
    "gradient_clipping": (False,),
    "inputs": (None,),
    "kernels": (Kernels.TORCH,),
    "loss": (Loss.FULL_LOGITS,),
    "num_images": (None,),
    "offload": (Offload(),),
    "optimizer_in_backward": (False,),
    "packing": (SequencePacking.NONE,),
    "padding_mask": (False,),
    "quantization_bits": (4,),
    "reentrant_checkpointing": (False,),
    "trainer": (Trainer.SUPERVISED,),
}
"""Words that the scripts have not, with the values that change nothing."""


def _has_variant(case: Case) -> bool:
    return get_lora(case).variant == "lora"


def _names_layers(case: Case) -> bool:
    return set(get_lora(case).targets or ()) <= set(TARGETS)


def _is_true_precision(case: Case) -> bool:
    return get_training(case).precision in _TRUE


def _is_plain_llama(case: Case) -> bool:
    """Return whether a model has its family's biases in LitGPT alone."""
    spec = case.model.tree.spec
    if case.model.family in {"llama", "mistral"}:
        return not (spec.attention_bias or spec.mlp_bias)
    return not spec.query_key_norm


def _has_prompts(case: Case) -> bool:
    """Return whether layers have a prompt, and SDPA a kernel for it."""
    spec = case.model.tree.spec
    return spec.num_key_value_heads > 1 and spec.num_hidden_layers > _LAYERS_WITHOUT_PROMPT


def _names_state(case: Case) -> bool:
    version = get_training(case).framework_version
    return version is None or is_litgpt_version(version)


def _has_no_window(case: Case) -> bool:
    """Return whether no layer masks a window: none did before 2024-07-23."""
    version = get_training(case).framework_version
    is_read = version is None or is_litgpt_version(version)
    is_masked = is_read and find_code(version).masks_windows
    return case.model.tree.spec.sliding_window is None or not is_masked


def _refuse_word(name: str, values: tuple[object, ...]) -> Rule:
    """Return the rule that a word keeps to what a script does."""
    field: Field[object] = Field(f"workload.{name}")
    return Rule(
        require=is_in(field, *values),
        topic=Topic.WORDS,
        refusal=unmodelled(
            lambda case: f"{name} {getattr(case.workload, name)!s} in framework litgpt",
            str(values[0]),
        ),
        reason=f"{name} in framework litgpt",
    )


_RULES = (
    READS_NO_GGUF,
    make_options_rule(Topic.WORDS),
    make_head_rule("litgpt", field="workload.framework"),
    Rule(
        require=is_in(model.family, *FAMILIES),
        topic=Topic.MODEL,
        refusal=unmodelled("{model.family} in litgpt", *FAMILIES, field="workload.framework"),
        reason="LitGPT's own model is not read here for {model.family}",
        source="LitGPT 0.5.13, litgpt/config.py",
    ),
    Rule(
        require=satisfies(_is_plain_llama),
        topic=Topic.MODEL,
        field="model",
        refusal=unmodelled(
            "a {model.family} with biases or norms that LitGPT's has not",
            "layers as its published checkpoints have them",
        ),
        reason="a {model.family} with biases or norms that LitGPT's has not",
        source="LitGPT 0.5.13, litgpt/config.py",
    ),
    Rule(
        require=satisfies(_has_no_window, workload.framework_version),
        topic=Topic.MODEL,
        field="model",
        refusal=unmodelled(
            "the masks that litgpt makes for the sliding window of {model.family}",
            "models without a window",
            "framework_version before 0.4.6",
        ),
        reason="the masks that litgpt makes for the sliding window of {model.family}",
        source="LitGPT 0.5.13, litgpt/model.py: apply_sliding_window_attention",
    ),
    Rule(
        when=is_in(workload.method, Method.PEFT),
        require=is_in(workload.peft, *Adapter),
        topic=Topic.METHOD,
        field="workload.peft.type",
        refusal=unmodelled("PEFT's {workload.peft} in litgpt", *Adapter),
        reason="PEFT's {workload.peft} in framework litgpt",
        source=f"{_SCRIPTS}/adapter.py, adapter_v2.py",
    ),
    Rule(
        when=is_in(workload.method, Method.PEFT),
        require=is_at_most(workload.micro_batch_size, 1),
        topic=Topic.METHOD,
        refusal=unmodelled(
            "litgpt's adapters on micro batches of {workload.micro_batch_size}",
            "1",
            field="workload.micro_batch_size",
        ),
        reason="litgpt's adapters on micro batches of several sequences",
        source="ATen sdp_utils_cpp.h, check_batch_size_and_num_heads_dense: one prompt for all "
        "sequences leaves SDPA's math kernel",
    ),
    Rule(
        when=is_in(workload.method, Method.PEFT),
        require=satisfies(_has_prompts),
        topic=Topic.METHOD,
        field="model",
        refusal=unmodelled(
            "litgpt's adapters on an only key head, or on two layers",
            "models with several key heads and more layers",
        ),
        reason="litgpt's adapters on an only key head, or on two layers",
        source="LitGPT 0.5.13, litgpt/adapter.py: SDPA reads one prompt head for all",
    ),
    Rule(
        require=is_in(model.packing, None, Packing.BLOCKS_4BIT),
        topic=Topic.METHOD,
        field="model",
        refusal=unmodelled(
            "weights packed as {model.packing.value} in litgpt", "bitsandbytes, 4 bits"
        ),
        reason="weights packed as {model.packing.value} in framework litgpt",
    ),
    Rule(
        when=is_in(model.packing, Packing.BLOCKS_4BIT),
        require=is_not_in(workload.method, Method.FULL),
        topic=Topic.METHOD,
        refusal=invalid("litgpt trains no packed weights: say lora, or drop the quantisation"),
        reason="packed weights are not trained",
        source=f"{_SCRIPTS}/full.py has no quantize",
    ),
    Rule(
        when=is_given(workload.lora),
        require=satisfies(_has_variant, workload.lora),
        topic=Topic.METHOD,
        field="workload.lora.variant",
        refusal=unmodelled(
            lambda case: f"LoRA variant {get_lora(case).variant!r} in litgpt", "lora"
        ),
        source=f"{_SCRIPTS}/lora.py",
    ),
    Rule(
        when=is_given(workload.lora),
        require=satisfies(_names_layers, workload.lora),
        topic=Topic.METHOD,
        field="workload.lora.target_modules",
        refusal=invalid(
            lambda case: (
                f"target_modules of litgpt are {', '.join(TARGETS)}; it has no "
                f"{', '.join(sorted(set(get_lora(case).targets or ()) - set(TARGETS)))}"
            )
        ),
        source=f"{_SCRIPTS}/lora.py: lora_query, lora_key, lora_value, …",
    ),
    Rule(
        require=is_in(workload.optimizer, *OPTIMIZERS),
        topic=Topic.OPTIMIZER,
        refusal=unmodelled("optimizer {workload.optimizer} in litgpt", *OPTIMIZERS),
        reason="optimizer {workload.optimizer} in framework litgpt",
    ),
    Rule(
        require=satisfies(_is_true_precision, workload.precision),
        topic=Topic.PRECISION,
        refusal=unmodelled("precision {workload.precision.name} in litgpt", "bf16", "fp16", "fp32"),
        reason="precision {workload.precision.name} in framework litgpt",
        source="Lightning 2.6, fabric/plugins/precision/half.py: bf16-true, 16-true, 32-true",
    ),
    *(_refuse_word(name, values) for name, values in _DEFAULTS.items()),
    make_refusal("litgpt"),
    Rule(
        require=is_at_most(layout.num_gpus, 1),
        topic=Topic.SHARDING,
        refusal=unmodelled("litgpt on several GPUs", "one GPU", field="layout"),
        reason="framework litgpt on several GPUs",
        source=NO_TERM,
    ),
    Rule(
        require=satisfies(_names_state, workload.framework_version),
        topic=Topic.SWITCHES,
        refusal=invalid(
            lambda case: (
                f"framework_version {get_training(case).framework_version!r} of litgpt is a "
                "release since 0.3.0, such as 0.5.13, or a day since 2023-10-24"
            )
        ),
        source="Lightning-AI/litgpt, its tags and history",
    ),
)
TRAIN_LITGPT = RuleTable(
    name="train_litgpt",
    rules=(*RECORDED_ELSEWHERE, *_RULES),
    topics=(
        *(Topic.MODEL, Topic.METHOD, Topic.LOSS, Topic.OPTIMIZER, Topic.PRECISION),
        *(Topic.WORDS, Topic.SHARDING, Topic.SWITCHES),
    ),
    sharding_options=(),
)
