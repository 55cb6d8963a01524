"""Bytes of whole models, against checkpoints as published."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from service.catalog.models import load_architecture, load_config, resolve_model
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import (
    architecture_from_config,
    architecture_from_spec,
)
from service.estimator.model.quantization.weights import (
    INT8,
    NF4,
    iter_placements,
    select_scheme,
    weight_bytes,
)
from service.estimator.model.weights.packing import packed_bytes
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError
from service.estimator.values.workload import Quantization
from tests.builders import a_mixture, a_model


def a_quantised(name: str, quantization: Mapping[str, object]) -> Architecture:
    """Return a model of the catalogue with a quantization_config."""
    return architecture_from_config(
        {**load_config(resolve_model(name)), "quantization_config": quantization}
    )


def test_gpt_oss_is_its_published_checkpoint() -> None:
    """openai/gpt-oss-20b's model.safetensors.index.json says a total_size of 13761264768."""
    model = load_architecture(resolve_model("openai/gpt-oss-20b"))

    assert model.quantization is not None
    assert weight_bytes(model, model.quantization, DType.BF16).total == 13_761_264_768
    assert model.counts.total == 20_914_757_184


def test_the_parts_are_those_of_every_layer() -> None:
    """Llama-2-7B in nf4: 224 matrices are packed; the tables, the head and 65 norms stay in 16
    bit.
    """
    model = architecture_from_config(load_config(resolve_model("llama-2-7b")))
    square, wide = packed_bytes(4096, 4096, NF4), packed_bytes(11008, 4096, NF4)

    found = weight_bytes(model, NF4, DType.BF16)

    assert found.quantised == 32 * (4 * square.codes + 3 * wide.codes)
    assert found.scales == 32 * (4 * square.scales + 3 * wide.scales)
    assert found.unquantised == 2 * (2 * 32000 * 4096 + 65 * 4096)
    assert found.total == found.quantised + found.scales + found.unquantised


def test_stacked_experts_stay_where_a_loader_replaces_linears() -> None:
    """The loader replaces ``torch.nn.Linear``; transformers 5 stacks experts as bare parameters."""
    model = a_mixture()
    stacks = sum(
        weight.numel
        for weight, count in model.weights()
        for _ in range(count)
        if weight.kind == "mlp_experts"
    )

    found = weight_bytes(model, INT8, DType.BF16)

    assert found.unquantised >= 2 * stacks
    assert (
        weight_bytes(
            model, replace(INT8, scope=Scheme(packing=Packing.FP8).scope), DType.BF16
        ).unquantised
        == found.unquantised - 2 * stacks
    )


@pytest.mark.parametrize(
    ("kept", "packed_layers"),
    [
        ((), 2),
        (("model.layers.1.mlp",), 1),
        (("down_proj",), 0),
        (("re:.*layers.0.*down.*",), 1),
        (("model.layers.*.mlp",), 0),
    ],
)
def test_patterns_keep_modules(kept: tuple[str, ...], packed_layers: int) -> None:
    """A pattern names a module from the start up to a dot, as a rule, or by its end; a layer's
    number counts.
    """
    scheme = replace(NF4, kept=kept)

    found = {
        placed.weight.name: placed
        for placed in iter_placements(a_model(num_hidden_layers=2), scheme)
    }

    assert found["mlp.down_proj.weight"].num_packed == packed_layers
    assert found["self_attn.q_proj.weight"].num_packed == 2


def test_every_weight_is_placed_once() -> None:
    """What is packed and what stays are the model's parameters."""
    model = a_mixture()

    placed = list(iter_placements(model, Scheme(packing=Packing.GPTQ, group_size=128)))

    assert (
        sum((item.num_packed + item.num_unpacked) * item.weight.numel for item in placed)
        == model.counts.total
    )


def test_the_config_speaks_first() -> None:
    """A word for a format that the config has means the config's own; no word means the config's
    own as well.
    """
    model = a_quantised(
        "llama-2-7b", {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True}
    )

    assert select_scheme(Quantization.NONE, model) == model.quantization
    assert select_scheme(Quantization.GPTQ_INT4, model) == model.quantization
    assert select_scheme(Quantization.NF4, model) == NF4
    assert select_scheme(Quantization.NONE, a_model()) is None


def test_mxfp4_needs_experts() -> None:
    """Engines pack experts alone into mxfp4: a dense model is refused."""
    with pytest.raises(NotModelledError, match="without experts"):
        select_scheme(Quantization.MXFP4, a_model())


def test_the_scheme_survives_our_own_spec() -> None:
    """What ``describe`` writes is read back, and it is part of what tells models apart."""
    model = load_architecture(resolve_model("openai/gpt-oss-20b"))

    again = architecture_from_spec(model.describe())

    assert again.quantization == model.quantization
    assert model.fingerprint() != replace(model, quantization=None).fingerprint()
