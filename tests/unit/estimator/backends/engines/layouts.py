"""Recordings of layers alone: weights, caches and plans of a config, without a pass."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from service.estimator.model.recorded.architecture import RecordedArchitecture, build_recorded
from service.estimator.tape.programs.program import Gradient, GraphNode, Operation, Program, Source
from service.estimator.tape.programs.recorded_pass import RecordedPass
from worker.probes.architecture.caches import hear_caches
from worker.probes.architecture.depth import find_stack
from worker.probes.architecture.describe import describe_model
from worker.probes.architecture.programs import LoweredPass
from worker.probes.models.model_class import build_any_model, build_config

_EMPTY = Program(values=(), num_storages=0, inputs=0, instructions=(), output=0)


def record_layout(config: Mapping[str, Any]) -> RecordedArchitecture:
    """Return what a recording says of a config's layers, which engines ask for.

    Layers of one kind have equal modules and keep the same.
    """
    hf_config = build_config(config)
    hf_config.use_cache = hf_config.get_text_config().use_cache = False
    with torch.device("meta"):
        model = build_any_model(config, hf_config, dtype=torch.float32, attention="sdpa")
    stack = find_stack(model)
    caches = hear_caches(config, hf_config, len(stack.signatures))
    keys = list(zip(stack.signatures, caches, strict=True))
    kinds = list(dict.fromkeys(keys))
    order = tuple(kinds.index(key) for key in keys)
    last = _name_last(model, stack.prefix)
    lowered = LoweredPass(recorded=_make_pass(last, len(kinds)), kinds=order, prefix=stack.prefix)
    recorded = describe_model(model, {"half": lowered}, order, caches)
    return build_recorded(replace(recorded, passes={"half": lowered.recorded}))


def _name_last(model: torch.nn.Module, prefix: str) -> list[str]:
    """Return the norms outside of the layers, which decoders have after them."""
    return [
        name
        for name, weight in model.named_parameters()
        if not name.startswith(prefix)
        and name.endswith(("norm.weight", "norm.bias", "ln_f.weight", "ln_f.bias", "norm_f.weight"))
        and not any(word in name for word in ("embed", "vision", "tower", "visual", "projector"))
    ]


def _make_pass(last: list[str], num_kinds: int) -> RecordedPass:
    """Return a pass whose end reads these weights."""
    gradients = tuple(
        Gradient(value=None, parameter=name, source=Source.ALLOCATED, index=0, is_view=False)
        for name in last
    )
    node = GraphNode(
        name="norm",
        outputs=(),
        saved_before=(),
        saved_after=(),
        events=(),
        gradients=gradients,
    )
    end = Operation(operator="norm", allocated=(), scratch=(), nodes=(node,))
    return RecordedPass(
        values=(),
        num_storages=0,
        inputs=(),
        prologue=(),
        x=0,
        holds_x=False,
        layer_args=(),
        blocks=(_EMPTY,) * num_kinds,
        block_inputs=((),) * num_kinds,
        output=0,
        epilogue=(end,),
        hidden=0,
        tail=(),
        loss=None,
        returned=(),
    )
