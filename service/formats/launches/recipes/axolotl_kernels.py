"""Attention, kernels and packing of axolotl.

axolotl 0.19, ``utils/schemas/config.py`` and ``integrations/liger``.
"""

from service.estimator.values.losses import LIGER_FAMILIES
from service.formats.launches.recipes.axolotl_words import LEGACY_ATTENTION
from service.formats.launches.trainers.setup import Client
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.launch import Checkpoint
from service.formats.launches.values.settings import Setting, Settings

_ATTENTION = frozenset({"eager", "sdpa", "flash_attention_2", "flash_attention_3"})
_CUT = (LIGER_FAMILIES - {"gemma2"}) | {
    *("apertus", "arcee", "deepseek_v2", "deepseek_v3", "exaone4", "gemma3", "glm", "glm4"),
    *("glm4_moe", "gpt_oss", "hunyuan_v1_dense", "lfm2", "lfm2_moe", "llama4_text", "llava"),
    *("ministral3", "mistral3", "mistral4", "mixtral", "olmo", "olmo2", "olmo3", "olmoe", "phi"),
    *("phi3", "qwen2_5_vl", "qwen2_moe", "qwen2_vl", "qwen3_moe", "qwen3_next", "seed_oss"),
    "voxtral",
}
"""Families that cut cross-entropy's plugin patches, whose logits are neither scaled nor capped
(axolotl 0.19, ``integrations/cut_cross_entropy/README.md``).
"""
_LIGER = "LigerPlugin"
_CUT_CROSS_ENTROPY = "CutCrossEntropyPlugin"
_LIGER_SWITCHES = (
    *("liger_rope", "liger_rms_norm", "liger_glu_activation", "liger_swiglu", "liger_layer_norm"),
    *("liger_fused_linear_cross_entropy", "liger_cross_entropy", "liger_rms_norm_gated"),
)


def read_attention(config: Settings, model: Settings, draft: Draft) -> None:
    """Set the attention; the older switches mean one word each."""
    attention = config.take("attn_implementation")
    for key, word in LEGACY_ATTENTION.items():
        switch = config.take(key)
        if switch is None:
            continue
        if not switch.as_bool():
            draft.drop(switch)
        elif attention is not None:
            raise switch.refuse(f"no value beside {attention.key} {attention.value}")
        else:
            attention = Setting(key=switch.key, value=word, where=switch.where)
    if attention is None:
        return
    if str(attention.value) in _ATTENTION or "/" in str(attention.value):
        word = str(attention.value)
        word = word if word in _ATTENTION else "flash_attn"
        setting = Setting(key=attention.key, value=word, where=attention.where)
        model.add("attn_implementation", setting)
    else:
        draft.ignore(attention, "attention is counted as SDPA's")


def read_kernels(config: Settings, training: Settings, draft: Draft) -> None:
    """Set Liger's kernels where its plugin replaces all that transformers' switch does."""
    plugins = config.peek("plugins")
    named = "" if plugins is None else str(plugins.value)
    switches = {name: config.take(name) for name in _LIGER_SWITCHES}
    on = {name for name, setting in switches.items() if setting is not None and setting.as_bool()}
    loaded = plugins is not None and _LIGER in named
    replaces_all = {"liger_rope", "liger_rms_norm", "liger_fused_linear_cross_entropy"} <= on
    if loaded and plugins is not None and replaces_all:
        switch = Setting(key=plugins.key, value=True, where=plugins.where)
        training.add("use_liger_kernel", switch)
    for name, setting in switches.items():
        if setting is None:
            continue
        if loaded and replaces_all:
            draft.note(setting, "one of Liger's kernels")
        elif loaded and name in on:
            draft.ignore(setting, "operations are counted as the model's own")
        else:
            draft.drop(setting)


def read_cut_loss(
    config: Settings, draft: Draft, checkpoint: Checkpoint | None, client: Client
) -> None:
    """Set the loss of cut cross-entropy's plugin.

    The family's logits have to be neither scaled nor capped.

    It holds no logits, and in backward a gradient of the head in the model's format
    (cut-cross-entropy 25.1, ``cce_backward.py``): Liger's loss with the head inside, whose tiles
    and gradients take no less, counts for it.
    """
    plugins, switch = config.peek("plugins"), config.peek("cut_cross_entropy")
    is_off = switch is not None and not switch.as_bool()
    if plugins is None or _CUT_CROSS_ENTROPY not in str(plugins.value) or is_off:
        return
    config.take("cut_cross_entropy")
    is_free = draft.get("workload.loss") is None and draft.get("workload.kernels") != "liger"
    family = "" if checkpoint is None else checkpoint.model_type
    if not (client is Client.TRAINER and is_free and family in _CUT):
        draft.ignore(plugins, "cut cross-entropy is counted as a loss over whole logits")
        return
    draft.put("workload.loss", "fused_linear", plugins)
    draft.warn(
        f"{plugins.where}: cut cross-entropy is counted as Liger's loss with the head inside, "
        "which takes no less"
    )


def read_packing(config: Settings, draft: Draft) -> None:
    """Set whether rows are filled up with several samples."""
    packing = config.take("sample_packing")
    if packing is not None:
        rows = "packed" if packing.as_bool() else "none"
        draft.put("workload.packing", rows, packing)
    multiple = config.take("pad_to_multiple_of")
    if multiple is not None:
        draft.note(multiple, "rows are padded to a multiple, up to sequence_len")
