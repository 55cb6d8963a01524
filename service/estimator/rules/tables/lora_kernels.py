"""Rules of axolotl's kernels for adapters."""

from service.estimator.rules.grammar.conditions import (
    is_false,
    is_in,
    satisfies,
)
from service.estimator.rules.grammar.fields import model, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.lora_kernels import (
    computes_in_format,
    has_attention_kernels,
    has_kernels,
    has_plain_variant,
    is_int8,
    suits_gated,
    suits_kernels,
)
from service.estimator.rules.predicates.models import is_text_decoder
from service.estimator.values.adapters.lora_kernels import KERNEL_ACTIVATIONS, PATCHED_FAMILIES
from service.estimator.values.losses import Kernels, Trainer

_KERNELS = "workload.lora.kernels"

_RUN = satisfies(has_kernels, workload.lora)

_BASE = (workload.lora, workload.method, workload.framework_version, workload.quantization_bits)

_WITHOUT = "no lora.kernels"

_PATCHES = "axolotl 0.19 monkeypatch/lora_kernels.py"

LORA_KERNELS = (
    Rule(
        when=_RUN,
        require=is_false(model.recorded),
        field=_KERNELS,
        topic=Topic.ADAPTERS,
        refusal=unmodelled("axolotl's kernels in a recording of {model.family}", _WITHOUT),
    ),
    Rule(
        when=_RUN,
        require=satisfies(is_text_decoder),
        field=_KERNELS,
        topic=Topic.ADAPTERS,
        refusal=unmodelled(
            "axolotl's kernels in {model.family}", "language models of text alone", _WITHOUT
        ),
        source=f"{_PATCHES}, apply_lora_kernel_patches: a PeftModelForCausalLM",
    ),
    Rule(
        when=_RUN,
        require=satisfies(lambda case: not is_int8(case), *_BASE),
        field=_KERNELS,
        topic=Topic.ADAPTERS,
        refusal=invalid(
            "axolotl's kernels do not run over LLM.int8(): say quantization_bits 4, or leave "
            "lora.kernels out"
        ),
        source="axolotl 0.19 utils/schemas/validation.py, check_lora_kernels_8bit",
    ),
    Rule(
        when=_RUN,
        require=satisfies(suits_kernels, *_BASE),
        field=_KERNELS,
        topic=Topic.ADAPTERS,
        refusal=unmodelled(
            "axolotl's kernels over weights of {model.packing}", "nf4", "16 bits", _WITHOUT
        ),
        source="axolotl 0.19 kernels/quantize.py, dequantize",
    ),
    Rule(
        when=_RUN,
        require=satisfies(has_plain_variant, workload.lora),
        field=_KERNELS,
        topic=Topic.ADAPTERS,
        refusal=unmodelled("axolotl's kernels for DoRA", "variant lora", "rslora", _WITHOUT),
        source="axolotl 0.19 kernels/lora.py, has_dora",
    ),
    Rule(
        when=satisfies(has_attention_kernels, workload.lora),
        require=is_in(model.family, *sorted(PATCHED_FAMILIES)),
        field=_KERNELS,
        topic=Topic.ADAPTERS,
        refusal=invalid(
            "axolotl does not find the lines that it replaces, or the layers, of "
            "{model.family}'s attention, and stops: leave qkv and o out of lora.kernels"
        ),
        source=f"{_PATCHES}, patch_self_attn_lora",
    ),
    Rule(
        when=_RUN,
        require=satisfies(suits_gated, workload.lora),
        field=_KERNELS,
        topic=Topic.ADAPTERS,
        refusal=invalid(
            lambda case: (
                f"axolotl's kernel of gated layers has {' and '.join(KERNEL_ACTIVATIONS)}, not "
                f"{case.model.tree.spec.activation}: leave mlp out of lora.kernels"
            )
        ),
        source=f"{_PATCHES}, SUPPORTED_ACTIVATIONS",
    ),
    Rule(
        when=_RUN,
        require=satisfies(
            computes_in_format, *_BASE, workload.precision, workload.fp32_norms_and_head
        ),
        field=_KERNELS,
        topic=Topic.ADAPTERS,
        refusal=invalid(
            "axolotl's kernels add in the format of their input, and norms in fp32 give them "
            "another under autocast: say fp32_norms_and_head false and a precision whose weights "
            "are in {workload.precision.compute_dtype}, as axolotl loads them, or leave "
            "lora.kernels out"
        ),
        source="axolotl 0.19 loaders/model.py, _configure_embedding_dtypes; kernels/lora.py, "
        "matmul_lora",
    ),
    Rule(
        when=_RUN,
        require=is_in(workload.kernels, Kernels.TORCH, Kernels.LIGER),
        topic=Topic.ADAPTERS,
        refusal=invalid(
            "kernels {workload.kernels} run adapters by functions of their own, not axolotl's: "
            "leave lora.kernels out"
        ),
        source="axolotl 0.19 utils/schemas/validation.py, check_deprecated_unsloth_fields",
    ),
    Rule(
        when=_RUN,
        require=is_in(workload.trainer, Trainer.SUPERVISED),
        field=_KERNELS,
        topic=Topic.ADAPTERS,
        refusal=unmodelled(
            "axolotl's kernels with trainer {workload.trainer}", "trainer supervised", _WITHOUT
        ),
        source="axolotl 0.19 utils/schemas/config.py, check_auto_enable_lora_kernels: off unless "
        "said",
    ),
)
