"""Checkpoints whose modules have several formats, each told by its modules' names."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_config, resolve_model
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.quantization.weights import iter_placements, weight_bytes
from service.estimator.model.weights.scheme import Packing, read_scheme
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidConfigError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Lora, Method, TrainWorkload

LAYERS = 32
FP8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
NVFP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}


def modelopt(**layers: str) -> dict[str, Any]:
    """Return a ModelOpt config that names modules of every layer with their algorithm."""
    named = {
        f"model.layers.{layer}.{module.replace('__', '.')}": {"quant_algo": algorithm}
        for layer in range(LAYERS)
        for module, algorithm in layers.items()
    }
    return {
        "quant_method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": named,
        "ignore": ["model.layers.7.*"],
    }


def compressed(*groups: Mapping[str, Any]) -> dict[str, Any]:
    """Return a compressed-tensors config of groups."""
    return {
        "quant_method": "compressed-tensors",
        "format": "mixed-precision",
        "ignore": ["lm_head"],
        "config_groups": {f"group_{number}": group for number, group in enumerate(groups)},
    }


def count_formats(
    quantization: Mapping[str, Any], name: str = "llama-3.1-8b"
) -> dict[str, dict[str, int]]:
    """Return how often a module of a model has each format; 16 bits is an empty word."""
    plain = load_config(resolve_model(name))
    model = architecture_from_config({**plain, "quantization_config": quantization})
    assert model.quantization is not None
    counts: dict[str, dict[str, int]] = {}
    for placed in iter_placements(model, model.quantization):
        own = placed.num_packed - sum(count for _, count in placed.other_formats)
        formats = {part.packing.value: count for part, count in placed.other_formats}
        formats |= {model.quantization.packing.value: own, "": placed.num_unpacked}
        counts[placed.weight.name.removesuffix(".weight")] = {
            name: count for name, count in formats.items() if count
        }
    return counts


def test_modelopt_names_the_algorithm_of_each_module() -> None:
    """What it does not name stays in 16 bits, and what it ignores too."""
    counts = count_formats(
        modelopt(mlp__up_proj="NVFP4", mlp__down_proj="NVFP4", self_attn__q_proj="FP8")
    )

    assert counts["mlp.up_proj"] == {"nvfp4": LAYERS - 1, "": 1}
    assert counts["self_attn.q_proj"] == {"fp8": LAYERS - 1, "": 1}
    assert counts["mlp.gate_proj"] == {"": LAYERS}
    assert counts["lm_head"] == {"": 1}


@pytest.mark.parametrize(
    ("name", "path", "stacked"),
    [
        ("nemotron-3-nano-30b-a3b", "backbone.layers.1.mixer", ["mixer.experts.up_proj"]),
        ("qwen3-30b-a3b", "model.layers.1.mlp", ["mlp.experts.gate_up_proj"]),
    ],
)
def test_experts_that_are_named_one_by_one_are_one_tensor(
    name: str, path: str, stacked: list[str]
) -> None:
    """A list of every expert of a layer packs the stack, and no other layer's."""
    quantization = modelopt()
    quantization["quantized_layers"] = {
        f"{path}.experts.{expert}.{half}_proj": {"quant_algo": "W4A16_NVFP4", "group_size": 16}
        for expert in range(128)
        for half in ("gate", "up")
    }

    counts = count_formats(quantization, name)

    assert [module for module, count in counts.items() if "nvfp4" in count] == stacked
    assert counts[stacked[0]]["nvfp4"] == 1


def test_groups_of_compressed_tensors_are_told_apart_by_their_targets() -> None:
    """A name goes before the class that all linear layers have."""
    counts = count_formats(
        compressed(
            {"targets": ["Linear"], "weights": NVFP4, "format": "nvfp4-pack-quantized"},
            {"targets": ["re:.*self_attn.*"], "weights": FP8, "format": "float-quantized"},
        )
    )

    assert counts["self_attn.o_proj"] == {"fp8": LAYERS}
    assert counts["mlp.gate_proj"] == {"nvfp4": LAYERS}
    assert counts["lm_head"] == {"": 1}


def test_a_module_of_another_format_has_its_bytes() -> None:
    """Codes of one byte and a scale for each row, instead of half a byte and one for 16."""
    plain = load_config(resolve_model("llama-3.1-8b"))
    group = {"targets": ["Linear"], "weights": NVFP4, "format": "nvfp4-pack-quantized"}
    other = {"targets": ["re:.*q_proj"], "weights": FP8, "format": "float-quantized"}
    totals = []
    for groups in ((group,), (group, other)):
        model = architecture_from_config({**plain, "quantization_config": compressed(*groups)})
        assert model.quantization is not None
        totals.append(weight_bytes(model, model.quantization, DType.BF16).total)

    rows, columns = 4096, 4096
    small = rows * columns // 2 + rows * columns // 16 + 4
    assert totals[1] - totals[0] == LAYERS * (rows * columns + 2 * rows - small)


@pytest.mark.parametrize("order", [1, -1])
def test_rules_are_those_of_the_narrowest_format(order: int) -> None:
    """Adapters over nvfp4 are refused, however many modules beside them are fp8."""
    quantization = modelopt(mlp__up_proj="NVFP4", self_attn__q_proj="FP8", self_attn__o_proj="FP8")
    groups = [
        {"targets": ["Linear"], "weights": FP8, "format": "float-quantized"},
        {"targets": ["re:.*mlp.*"], "weights": NVFP4, "format": "nvfp4-pack-quantized"},
    ]
    for config in (quantization, compressed(*groups[::order])):
        plain = load_config(resolve_model("llama-3.1-8b"))
        model = architecture_from_config({**plain, "quantization_config": config})
        workload = TrainWorkload(sequence_length=64, method=Method.LORA, lora=Lora())

        assert count_formats(config)["self_attn.q_proj"].keys() >= {"fp8"}
        with pytest.raises(NotModelledError, match="adapters on weights packed as nvfp4"):
            estimate(
                model, workload, layout=Layout(), device=resolve_gpu("H100-SXM5-80GB").to_device()
            )


def test_a_mixture_is_stored_and_read_again() -> None:
    """As JSON, with the formats of its parts."""
    plain = load_config(resolve_model("llama-3.1-8b"))
    quantization = modelopt(mlp__up_proj="NVFP4", self_attn__q_proj="FP8")
    scheme = architecture_from_config({**plain, "quantization_config": quantization}).quantization

    assert scheme is not None
    assert [part.packing for part in scheme.parts] == [Packing.FP8]
    assert read_scheme(scheme.describe()) == scheme


@pytest.mark.parametrize(
    ("quantization", "error", "field"),
    [
        (modelopt(mlp__up_proj="INT3"), NotModelledError, "quantized_layers.quant_algo"),
        (modelopt() | {"quantized_layers": {"a": 3}}, InvalidConfigError, "quantized_layers"),
        (modelopt(), NotModelledError, "quant_algo"),
        (compressed({"targets": ["Linear"]}), InvalidConfigError, "config_groups"),
        (compressed(), NotModelledError, "config_groups"),
        (
            compressed(*(2 * [{"weights": NVFP4, "format": "nvfp4-pack-quantized"}])),
            NotModelledError,
            "config_groups",
        ),
    ],
)
def test_what_is_no_mixture_is_refused(
    quantization: Mapping[str, Any], error: type[Exception], field: str
) -> None:
    """An algorithm without a term, what is no object, and two formats for every layer."""
    with pytest.raises(error) as refused:
        count_formats(quantization)

    assert getattr(refused.value, "field", "").endswith(field)
