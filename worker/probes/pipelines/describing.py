"""Components of a pipeline: releases, weights by module, lists of blocks."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from torch import nn

from worker.probes.pipelines.components import build_component, list_module_tensors
from worker.probes.pipelines.sources import Source
from worker.probes.pipelines.tracing import use_fake_tensors

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def describe_releases() -> dict[str, str]:
    """Return the releases of what is recorded."""
    return {
        name: str(import_module(name).__version__)
        for name in ("diffusers", "transformers", "torch")
    }


def describe_component(source: Source, name: str) -> dict[str, Any]:
    """Return a component's config, weights by module, and lists of blocks."""
    library, class_name, config = source.components[name]
    rows: dict[str, list[tuple[str, list[tuple[int, int]]]]] = {}
    full: dict[str, Any] = dict(config)
    blocks: list[str] = []
    parameters = 0
    for dtype, torch_dtype in DTYPES.items():
        with use_fake_tensors():
            module = build_component(library, class_name, config, torch_dtype)
            rows[dtype] = list_module_tensors(module)
            parameters = sum(weight.numel() for weight in module.parameters())
            blocks = list_blocks(module)
            full = _read_full_config(library, module)
    return {
        "library": library,
        "class": class_name,
        "config": full,
        "given": sorted(config),
        "parameters": parameters,
        "blocks": blocks,
        "modules": [
            [
                path,
                [
                    [numel, *(rows[dtype][place][1][index][1] for dtype in DTYPES)]
                    for index, (numel, _) in enumerate(tensors)
                ],
            ]
            for place, (path, tensors) in enumerate(rows["bf16"])
        ],
    }


def _read_full_config(library: str, module: nn.Module) -> dict[str, Any]:
    """Return a component's config with all defaults."""
    config: Any = module.config
    fields = dict(config) if library == "diffusers" else config.to_dict()
    return {
        name: value
        for name, value in fields.items()
        if not name.startswith("_") and _is_plain(value)
    }


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def list_blocks(module: nn.Module, prefix: str = "") -> list[str]:
    """Return the lists of blocks that group offloading takes apart.

    (``_apply_group_offloading_block_level`` of diffusers 0.42.)
    """
    inner = getattr(module, "_group_offload_block_modules", None) or () if not prefix else ()
    blocks = []
    for name, child in module.named_children():
        if name in inner:
            blocks += list_blocks(child, f"{prefix}{name}.")
        elif isinstance(child, nn.ModuleList | nn.Sequential):
            blocks.append(f"{prefix}{name}")
    return blocks


def list_watched(modules: Mapping[str, nn.Module]) -> set[str]:
    """Return the modules that offloading moves: leaves with tensors, blocks, and components."""
    watched = set(modules)
    for name, module in modules.items():
        watched |= {f"{name}.{path}" for path, _ in list_module_tensors(module) if path}
        for blocks in list_blocks(module):
            part = module.get_submodule(blocks)
            watched |= {f"{name}.{blocks}.{child}" for child, _ in part.named_children()}
    return watched
