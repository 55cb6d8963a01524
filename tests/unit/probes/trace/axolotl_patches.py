"""Axolotl's patches of a model with PEFT's adapters.

axolotl 0.19, ``monkeypatch/lora_kernels.py``.
"""

import inspect
import textwrap
from collections.abc import Collection, Sequence
from types import MethodType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from service.estimator.values.adapters.lora_kernels import LoraKernel
from tests.unit.probes.trace.axolotl_functions import (
    Gated,
    Last,
    Projections,
    drop_input,
    read_layer,
)
from tests.unit.probes.trace.unsloth_functions import apply

QKV_LINES = (
    """
query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)
key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)
value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)
""",
    """
query_states = self.q_norm(self.q_proj(hidden_states).view(hidden_shape)).transpose(1, 2)
key_states = self.k_norm(self.k_proj(hidden_states).view(hidden_shape)).transpose(1, 2)
value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)
""",
    """
query_states, gate = torch.chunk(
    self.q_proj(hidden_states).view(*input_shape, -1, self.head_dim * 2), 2, dim=-1
)
gate = gate.reshape(*input_shape, -1)

query_states = self.q_norm(query_states.view(hidden_shape)).transpose(1, 2)
key_states = self.k_norm(self.k_proj(hidden_states).view(hidden_shape)).transpose(1, 2)
value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)
""",
)
"""Lines of an attention's forward, of which those that it has are replaced (``QKV_PATCHES``)."""
OUTPUT_LINE = "attn_output = self.o_proj(attn_output)\n"
_NAMES = ("q_proj", "k_proj", "v_proj")


def find_lines(attention: str) -> str | None:
    """Return the lines of a class's code that are replaced, None where there are none."""
    lines = next((lines for lines in QKV_LINES if _indent(lines) in attention), None)
    return lines if OUTPUT_LINE in attention else None


def patch_attention(attention: type[nn.Module], patch: pytest.MonkeyPatch) -> None:
    """Make a class project by ``apply_qkv`` and ``apply_o``."""
    source = inspect.getsource(attention.forward)
    lines = find_lines(source)
    assert lines is not None
    joined = f"query_states, key_states, value_states = self.apply_qkv(hidden_states){lines}"
    for name, value in zip(_NAMES, ("query", "key", "value"), strict=True):
        joined = joined.replace(f"self.{name}(hidden_states)", f"{value}_states")
    source = source.replace(_indent(lines), _indent(joined))
    source = source.replace(OUTPUT_LINE, OUTPUT_LINE.replace("o_proj", "apply_o"))
    made: dict[str, Any] = {}
    exec(textwrap.dedent(source), vars(inspect.getmodule(attention)), made)  # noqa: S102 - as axolotl does
    patch.setattr(attention, "forward", made["forward"])


def patch_model(
    model: nn.Module,
    kernels: Collection[LoraKernel],
    patch: pytest.MonkeyPatch,
    *,
    quantised: bool,
) -> None:
    """Put functions in place of modules (``apply_lora_kernel_patches``)."""
    inner: Any = model.get_submodule("base_model.model")
    layers = inner.model.layers

    def bind(function: Any, owner: nn.Module) -> MethodType:
        return MethodType(lambda self, x: function(self, x, quantised), owner)

    attentions = [layer.self_attn for layer in layers if hasattr(layer, "self_attn")]
    for attention in attentions:
        attention.apply_qkv = bind(
            _project if LoraKernel.QKV in kernels else _project_each, attention
        )
        attention.apply_o = (
            bind(_apply_last, attention) if LoraKernel.OUTPUT in kernels else attention.o_proj
        )
    for layer in layers:
        if LoraKernel.MLP in kernels and hasattr(layer.mlp, "gate_proj"):
            layer.mlp.forward = bind(_run_gated, layer.mlp)
    for attention_class in {type(attention) for attention in attentions}:
        patch_attention(attention_class, patch)
    # As enable_input_require_grads does, which warns of a name of its own.
    inner.get_input_embeddings().register_forward_hook(
        lambda _module, _inputs, output: output.requires_grad_()
    )


def _project_each(self: Any, x: Tensor, _quantised: bool) -> Any:
    return tuple(getattr(self, name)(x) for name in _NAMES)


def _project(self: Any, x: Tensor, quantised: bool) -> Any:
    return _join(Projections, [getattr(self, name) for name in _NAMES], x, quantised)


def _apply_last(self: Any, x: Tensor, quantised: bool) -> Any:
    return _join(Last, [self.o_proj], x, quantised)


def _run_gated(self: Any, x: Tensor, quantised: bool) -> Any:
    return _join(Gated, [self.gate_proj, self.up_proj, self.down_proj], x, quantised)


def _join(
    function: type[torch.autograd.Function],
    modules: Sequence[nn.Module],
    x: Tensor,
    quantised: bool,
) -> Any:
    layers = [read_layer(module, quantised=quantised) for module in modules]
    factors = [factor for layer in layers for factor in layer.factors]
    return apply(function, x, drop_input(layers[0], x), layers, *factors)


def _indent(lines: str) -> str:
    return textwrap.indent(lines, " " * 8)
