"""Axolotl's kernels for adapters.

axolotl 0.19, ``utils/schemas/config.py`` (``check_auto_enable_lora_kernels``,
``check_multigpu_lora_kernels``), ``utils/schemas/validation.py`` (``check_lora_kernels_8bit``,
``check_lora_kernels_trust_remote_code``) and ``utils/config/__init__.py``, ``normalize_config``.
They are on by themselves from release 0.10 on. Until 0.16 adapters with dropout were left to PEFT.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from service.estimator.values.adapters.lora_kernels import PATCHED_FAMILIES
from service.estimator.values.layout import MAX_ZERO_STAGE
from service.formats.launches.recipes.axolotl_words import KERNELS
from service.formats.launches.trainers.setup import Client
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings, make_default

_WORDS = {"lora_qkv_kernel": "qkv", "lora_o_kernel": "o", "lora_mlp_kernel": "mlp"}
_SOURCE = "axolotl 0.19, utils/schemas/config.py, check_auto_enable_lora_kernels"
_SWITCHED_OFF = frozenset({"muse_glimmer", "paddleocr_vl", "qwen4_exp"})
"""Families that its ``model_support`` turns them off of."""
_WITH_IMAGES = frozenset({"gemma3", "mistral3"})
_WHOLE = "adapters are counted as PEFT's own, which takes more"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSettings:
    """Keys that turn kernels on, and those that keep them off."""

    switches: Mapping[str, Setting]
    method: Setting | None
    client: Client
    is_int8: bool
    trusts_code: bool


def take_kernels(config: Settings, client: Client) -> KernelSettings:
    """Take what decides about kernels; the adapters' keys stay for their reader."""
    switches = {name: config.take(name) for name in KERNELS}
    eight, trusted = config.peek("load_in_8bit"), config.peek("trust_remote_code")
    method = config.peek("adapter")
    is_lora = method is not None and str(method.value) == "lora"
    return KernelSettings(
        switches={name: setting for name, setting in switches.items() if setting is not None},
        method=method,
        client=client,
        is_int8=is_lora and eight is not None and eight.as_bool(),
        trusts_code=trusted is not None and trusted.as_bool(),
    )


def put_kernels(settings: KernelSettings, draft: Draft, family: str) -> None:
    """Set the kernels that run, where they have a term.

    Raises LaunchFormatError for those that axolotl refuses.
    """
    switched = {name: setting for name, setting in settings.switches.items() if setting.as_bool()}
    for setting in settings.switches.values():
        if settings.method is None or setting not in switched.values():
            draft.drop(setting)
    if settings.method is None:
        return
    if settings.switches:
        _put_switched(switched, settings, draft, family)
    elif _turns_on_itself(settings, draft, family):
        reason = _find_obstacle(settings, draft, family)
        if reason is None:
            switch = make_default("lora_*_kernel", value=True, source=_SOURCE)
            draft.put("workload.lora.kernels", list(_WORDS.values()), switch)
        else:
            draft.warn(f"axolotl turns its LoRA kernels on by itself: {reason}")


def _put_switched(
    switched: Mapping[str, Setting], settings: KernelSettings, draft: Draft, family: str
) -> None:
    """Set the kernels that a file turns on; the others stay off."""
    for setting in switched.values():
        _refuse_impossible(setting, settings)
    reason = _find_obstacle(settings, draft, family)
    counted = {name: setting for name, setting in switched.items() if name in _WORDS}
    for name, setting in switched.items():
        if name not in _WORDS:
            draft.drop(setting)  # adapters on embeddings have no term here
        elif reason is not None:
            draft.ignore(setting, reason)
    if counted and reason is None:
        kernels = [word for name, word in _WORDS.items() if name in counted]
        draft.put("workload.lora.kernels", kernels, *counted.values())


def _refuse_impossible(setting: Setting, settings: KernelSettings) -> None:
    if setting.key == "lora_embedding_kernel":
        return
    if settings.is_int8:
        raise setting.refuse("false beside load_in_8bit, which axolotl has no kernel for")
    if settings.trusts_code:
        raise setting.refuse(
            "false beside trust_remote_code, whose code axolotl patches nothing of"
        )


def _turns_on_itself(settings: KernelSettings, draft: Draft, family: str) -> bool:
    """Return whether axolotl turns kernels on of which a file says nothing."""
    is_flat = draft.get("layout.sharding") == "fsdp1" and draft.get("layout.data_parallel") != 1
    is_free = settings.client in {Client.TRAINER, Client.REWARD} and not settings.is_int8
    return is_free and not (settings.trusts_code or is_flat or family in _SWITCHED_OFF)


def _find_obstacle(settings: KernelSettings, draft: Draft, family: str) -> str | None:
    """Return why kernels are not counted, None where they are."""
    if settings.client is Client.REWARD:
        return f"it stops at a head of one score unless they are false; {_WHOLE}"
    if family not in PATCHED_FAMILIES:
        where = family or "a model that is not known"
        return f"they have no term in the attention of {where}; {_WHOLE}"
    is_counted = (
        settings.client is Client.TRAINER
        and family not in _WITH_IMAGES
        and draft.get("workload.lora.variant") != "dora"
        and draft.get("workload.compile") is not True
        and draft.get("layout.zero_stage") != MAX_ZERO_STAGE
    )
    return None if is_counted else _WHOLE
