"""Losses and kernels of a training step."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Loss(StrEnum):
    """Loss kernel, by its treatment of the logits."""

    FULL_LOGITS = "full_logits"
    FUSED_CROSS_ENTROPY = "fused_cross_entropy"
    FLASH_CROSS_ENTROPY = "flash_cross_entropy"
    """flash-attn's (LLM Foundry): 16-bit logits as they are, their gradient a second tensor"""
    CHUNKED = "chunked"
    FUSED_LINEAR = "fused_linear"
    CHUNKED_NLL = "chunked_nll"
    """TRL's of SFT: log-probabilities in tiles, the logits never whole"""
    NLL = "nll"
    """the same since TRL 1.16, of which ``chunked_nll`` is an older name"""
    SELECTIVE = "selective"
    """TRL's of DPO, KTO and GRPO before 1.15, of ORPO and CPO before 1.14: all logits, and
    log-probabilities sequence by sequence
    """
    DFT = "dft"
    """TRL's Dynamic Fine-Tuning (arXiv:2508.05629), with the same tiles"""


LOG_PROB_LOSSES = frozenset({Loss.CHUNKED_NLL, Loss.NLL, Loss.DFT})
"""Losses of TRL's trainers, all of the same log-probabilities."""


class Trainer(StrEnum):
    """Kind of training, which decides the forward passes of a step."""

    SUPERVISED = "supervised"
    """the labels of each sequence"""
    DPO = "dpo"
    """TRL's DPOTrainer: pairs of sequences beside a reference (arXiv:2305.18290)"""
    KTO = "kto"
    """TRL's KTOTrainer: sequences that are good or bad, beside a reference (arXiv:2402.01306)"""
    ORPO = "orpo"
    """TRL's ORPOTrainer: pairs, and a loss of the chosen ones (arXiv:2403.07691)"""
    CPO = "cpo"
    """TRL's CPOTrainer: pairs, and a loss of the chosen ones (arXiv:2401.08417)"""
    SIMPO = "simpo"
    """TRL's CPOTrainer with ``cpo_alpha`` 0: pairs alone (arXiv:2405.14734)"""
    REWARD = "reward"
    """TRL's RewardTrainer: pairs of sequences and a head of one score"""
    GRPO = "grpo"
    """group-relative policy optimisation: sequences that the policy generated (arXiv:2402.03300)"""


UNREFERRED_TRAINERS = frozenset({Trainer.ORPO, Trainer.CPO, Trainer.SIMPO})
"""Trainers of preferences that have no reference, and hold all logits."""
PAIRED_TRAINERS = UNREFERRED_TRAINERS | {Trainer.DPO, Trainer.REWARD}
"""Trainers whose batches are of pairs."""
REFERRING_TRAINERS = frozenset({Trainer.DPO, Trainer.KTO})
"""Trainers of preferences that have a reference."""


class Reference(StrEnum):
    """Source of the log-probabilities of a reference."""

    MODEL = "model"
    """a second model that stays on the GPU"""
    ADAPTERS_OFF = "adapters_off"
    """the same model without its adapters"""
    PRECOMPUTED = "precomputed"
    """the data set, with TRL's ``precompute_ref_log_probs``"""
    OFFLOADED = "offloaded"
    """a second model whose weights are on the host, as verl keeps GRPO's"""


class Kernels(StrEnum):
    """Kernels that replace a model's own operations."""

    TORCH = "torch"
    """the model's own operations"""
    LIGER = "liger"
    """what transformers' ``use_liger_kernel`` replaces, family by family"""
    FOAK = "foak"
    """fms-acceleration's fused ops and kernels: norms, rotations, the cross entropy, and adapters
    over quantised weights
    """
    UNSLOTH = "unsloth"
    """Unsloth's: its layers where it has some for a family, its checkpoints and its loss"""


LIGER_FAMILIES = frozenset(
    {
        *("llama", "mistral", "ministral", "qwen2", "qwen3", "smollm3"),
        *("gemma", "gemma2", "gemma3_text"),
    }
)
"""Families that Liger's kernels have terms for (liger-kernel 0.8 ``monkey_patch.py``)."""
LIGER_PATCHED = LIGER_FAMILIES | {
    *("deepseek_v2", "deepseek_v3", "deepseek_v4", "exaone4", "falcon_h1", "gemma3", "gemma4"),
    *("gemma4_text", "glm4", "glm4v", "glm4v_moe", "gpt_oss", "granite", "hunyuan_v1_dense"),
    *("hunyuan_v1_moe", "internvl", "llama4", "llama4_text", "llava", "mixtral", "mllama"),
    *("mllama_text_model", "muse_glimmer", "nemotron", "olmo2", "olmo3", "paligemma", "phi3"),
    *("pixtral", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_vl", "qwen2_vl_text", "qwen3_5"),
    *("qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe", "qwen3_next", "qwen3_vl"),
    *("qwen3_vl_moe", "qwen3_vl_moe_text", "qwen3_vl_text", "smolvlm"),
}
"""Model types that Liger has kernels for (``MODEL_TYPE_TO_APPLY_LIGER_FN`` of 0.8.5)."""
FOAK_FAMILIES = frozenset({"granite", "granitemoe", "llama", "mistral", "mixtral"})
"""Families with a term that foak has rules for (fms-acceleration-foak 0.7 ``models/``)."""
UNSLOTH_FAMILIES = frozenset({"llama", "mistral", "gemma", "gemma2", "qwen2", "qwen3"})
"""Families whose layers Unsloth runs by functions of its own, where they have adapters over 16 or 4
bits (unsloth 2026.10 ``models/loader.py``, ``dispatch_model``). All others, LLM.int8() and full
training run transformers' code (``FastModel``).
"""
BALANCED_FAMILIES = frozenset(
    {"gpt_oss", "jamba", "mixtral", "olmoe", "qwen2_moe", "qwen3_moe", "qwen3_next"}
)
"""Families whose configs weigh a loss that balances the experts, which TRL adds (trl 1.16
``trainer/sft_trainer.py``, ``aux_loss_enabled``; transformers 5.23, ``router_aux_loss_coef``).
"""
UNBALANCED_FAMILIES = frozenset(
    {"deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe", "glm_moe_dsa", "nemotron_h"}
)
"""Families with experts whose configs have no such weight, so that TRL adds nothing."""
COMPILED_FAMILIES = tuple(sorted(LIGER_FAMILIES - {"gemma2"}))
"""Families of which a compiled step is known; gemma2's attention caps its scores."""
LIGER_COPYING_FAMILIES = frozenset({"gemma2", "gemma3_text"})
"""Those whose norms do not write their gradient in place: two norms follow each other."""
DEFAULT_LOSSES: Mapping[Kernels, Loss] = MappingProxyType(
    {
        Kernels.TORCH: Loss.FULL_LOGITS,
        Kernels.LIGER: Loss.FUSED_LINEAR,
        Kernels.UNSLOTH: Loss.FUSED_LINEAR,
        Kernels.FOAK: Loss.FUSED_CROSS_ENTROPY,
    }
)
"""Losses that a client runs when nothing is said of them."""
