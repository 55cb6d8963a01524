"""Adapters of PEFT: their base, and a training of them."""

from collections.abc import Iterator, Mapping
from typing import Any

from service.base.errors import InvalidRequestError
from service.cli.model_files.brought import Brought
from service.formats.checkpoints.repository import ADAPTER, shorten
from service.formats.launches.trainers.adapters import UNMODELLED
from service.formats.launches.trainers.target_patterns import is_pattern, list_pattern_names

METHOD = "workload.method"
_KIND = "workload.peft.type"
_TARGETS = "workload.lora.target_modules"
_LORA = "lora"
_UNMODELLED = UNMODELLED | {
    "layer_replication": "layers that are there twice take more",
    "lora_bias": "biases that are trained take more",
}
"""What an adapter may say beside rank and targets, and how it is counted in its place."""


def read_adapter(adapter: Mapping[str, Any]) -> Brought:
    """Return the base of an adapter, its numbers, and the others.

    The numbers go by the flags that say them, the others have none. Raises InvalidRequestError
    where it names no base.
    """
    base = adapter.get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        message = f"{ADAPTER} names no base_model_name_or_path: name the model yourself"
        raise InvalidRequestError(message)
    kind = str(adapter.get("peft_type") or _LORA).lower()
    if kind != _LORA:
        # PEFT's other methods are asked for by their names, with its own defaults.
        method = {METHOD: "peft", _KIND: shorten(kind)}
        return {"base": base, "adapter": method, "left_out": ["its own rank and targets"]}
    targets = _name_targets(adapter.get("target_modules"))
    words: dict[str, object] = {METHOD: _LORA, "workload.lora.rank": adapter.get("r")}
    words[_TARGETS] = targets
    for variant in ("dora", "rslora"):
        if adapter.get(f"use_{variant}") is True:
            words["workload.lora.variant"] = variant
    words["workload.lora.dropout"] = adapter.get("lora_dropout")
    return {
        "base": base,
        "adapter": {dest: value for dest, value in words.items() if value},
        "left_out": list(_list_left_out(adapter, has_targets=targets is not None)),
    }


def _name_targets(targets: object) -> object:
    """Return the layers that are adapted, as a flag says them.

    None where they are not told.
    """
    if isinstance(targets, list):
        return sorted(map(str, targets)) or None
    if not isinstance(targets, str) or not targets:
        return None
    return list_pattern_names(targets) if is_pattern(targets) else targets


def _list_left_out(adapter: Mapping[str, Any], *, has_targets: bool) -> Iterator[str]:
    for name, reason in _UNMODELLED.items():
        if adapter.get(name):
            yield f"{name}: {reason}"
    if adapter.get("bias") not in {None, "none"}:
        yield "bias: biases that are trained take more"
    if has_targets:
        return
    targets = adapter.get("target_modules")
    if targets:
        yield (
            f"target_modules: the pattern {shorten(targets)} is not run, every linear layer is "
            "adapted in its place; --lora-target-modules names them"
        )
    else:
        yield "target_modules: none is named, and every linear layer is adapted in their place"
