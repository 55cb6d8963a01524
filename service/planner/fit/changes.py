"""Differences between two configurations, in terms of the HTTP contract."""

import json
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import TypeVar

from service.estimator.values.batches import Evaluation
from service.estimator.values.generation import Critic, Rollout
from service.estimator.values.layout import Layout
from service.estimator.values.megatron import MegatronOptions
from service.estimator.values.precision import Precision
from service.estimator.values.speculative import Speculative
from service.estimator.values.workload import Lora, Method, Offload, TrainWorkload, Workload

_NONE_IS_KEPT = ("kept_batches", 0)
Config = TypeVar("Config", Workload, Layout)


def list_changes(
    before: tuple[Workload, Layout], after: tuple[Workload, Layout]
) -> Mapping[str, object]:
    """Return the fields that differ, with their new values.

    Workload and layout share no field name.
    """
    return _collect_differences(before[0], after[0]) | _collect_differences(before[1], after[1])


def _collect_differences(before: Config, after: Config) -> dict[str, object]:
    changed_fields = {
        field.name: to_json_value(getattr(after, field.name))
        for field in fields(before)
        if getattr(before, field.name) != getattr(after, field.name)
    }
    if isinstance(before, TrainWorkload) and isinstance(after, TrainWorkload):
        _drop_default_batches(changed_fields, before.evaluation)
    if isinstance(after, TrainWorkload):
        if "selective_every" in changed_fields:  # the contract says both fields in one word
            every = changed_fields.pop("selective_every")
            changed_fields["activation_checkpointing"] = (
                {"selective": every} if every else after.activation_checkpointing.value
            )
        # A request that leaves the reference out has another one with adapters than without.
        if "method" in changed_fields and after.reference is not None:
            changed_fields["reference"] = after.reference.value
        # One of QLoRA that says nothing of norms and head has them in fp32.
        is_quantised = "method" in changed_fields and after.method is Method.QLORA
        if is_quantised and after.fp32_norms_and_head is False:
            changed_fields["fp32_norms_and_head"] = False
    return changed_fields


def _drop_default_batches(changes: dict[str, object], before: Evaluation | None) -> None:
    """Leave out that an evaluation still keeps no logits."""
    evaluation = changes.get("evaluation")
    if isinstance(evaluation, dict) and before is not None and not before.kept_batches:
        changes["evaluation"] = {
            name: value for name, value in evaluation.items() if (name, value) != _NONE_IS_KEPT
        }


def _render_parts(value: Offload | Rollout | Evaluation | MegatronOptions) -> dict[str, object]:
    """Return the fields of a part of a workload.

    Of a rollout these are its engine and what is no default, of Megatron-LM's options the latter,
    of an evaluation those that are set.
    """
    parts = _render_fields(value)
    if isinstance(value, Offload):
        return parts
    if isinstance(value, Evaluation):
        return {name: part for name, part in parts.items() if part is not None}
    defaults = _render_fields(type(value)())
    return {
        name: part for name, part in parts.items() if name == "engine" or part != defaults[name]
    }


def _render_model(value: Critic | Speculative) -> dict[str, object]:
    """Return a second model as it was asked for, without defaults."""
    model = (
        value.name
        or (value.config and {"hf_config": json.loads(value.config)})
        or (value.spec and {"architecture": json.loads(value.spec)})
    )
    parts = {
        field.name: to_json_value(getattr(value, field.name))
        for field in fields(value)
        if field.name not in {"name", "config", "spec"}
        and getattr(value, field.name) != field.default
    }
    word = "draft" if isinstance(value, Speculative) else "model"
    return ({word: model} if model else {}) | parts


def _render_fields(value: Offload | Rollout | Evaluation | MegatronOptions) -> dict[str, object]:
    return {field.name: to_json_value(getattr(value, field.name)) for field in fields(value)}


def to_json_value(value: object) -> object:
    """Convert a value of a workload or a layout to JSON."""
    match value:
        case Enum():
            return value.value
        case Precision():
            return value.name
        case Offload() | Rollout() | Evaluation() | MegatronOptions():
            return _render_parts(value)
        case Lora():
            targets = "all-linear" if value.targets is None else list(value.targets)
            return {
                "rank": value.rank,
                "target_modules": targets,
                "dtype": value.dtype.value,
                "variant": value.variant,
                "dropout": value.dropout,
                **({"kernels": list(value.kernels)} if value.kernels else {}),
            }
        case Critic() | Speculative():
            return _render_model(value)
        case _:
            return value
