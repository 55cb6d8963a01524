"""Transformers' tensor-parallel plan of a model, by module."""

from transformers import PreTrainedModel
from transformers.distributed.parallel_utils import replace_layer_number_by_wildcard

Plan = tuple[tuple[str, str], ...]


def list_plan(model: PreTrainedModel) -> dict[str, str]:
    """Return the style of each module and parameter that the plan names.

    It is what ``tp_plan="auto"`` shards: the class's own plan and that of the config.
    """
    plan = model.tp_plan or {}
    names = [name for name, _ in model.named_modules()]
    names += [name for name, _ in model.named_parameters()]
    styles = {name: plan.get(replace_layer_number_by_wildcard(name)) for name in names}
    return {name: style for name, style in styles.items() if style is not None}


def select_plan(plan: dict[str, str], start: str) -> Plan:
    """Return a plan below ``start``, by the rest of names."""
    return tuple(
        (name.removeprefix(start), style) for name, style in plan.items() if name.startswith(start)
    )
