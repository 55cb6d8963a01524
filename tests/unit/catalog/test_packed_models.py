"""Models of recordings with packed weights: what a published checkpoint holds, to the scale."""

import json
import re
from math import ceil

import pytest

from service.catalog.models import (
    ModelEntry,
    find_model,
    list_model_names,
    list_packed_models,
    list_recorded_models,
    load_architecture,
    load_config,
)
from service.estimator.model.quantization.weights import WeightPlacement, iter_placements
from service.estimator.model.weights.scheme import Packing, Scheme
from service.usecases.stored_specs.model_sources import read_source
from tests.unit.api.builders import served

PUBLISHED = {
    "Qwen/Qwen3.6-27B-FP8": 27_782_935_472,
    "Qwen/Qwen3.6-35B-A3B-FP8": 35_953_925_552,
    "Qwen/Qwen3.5-122B-A10B-FP8": 125_094_006_512,
    "Qwen/Qwen3.5-397B-A17B-FP8": 403_422_386_928,
    "Qwen/Qwen3-VL-8B-Instruct-FP8": 8_767_547_632,
    "Qwen/Qwen3-VL-30B-A3B-Instruct-FP8": 31_072_578_800,
    "Qwen/Qwen3-VL-32B-Instruct-FP8": 33_359_294_704,
    "Qwen/Qwen3-VL-235B-A22B-Instruct-FP8": 235_684_292_848,
    "MiniMaxAI/MiniMax-M2.5": 228_703_644_928 - 62 * 256,
    "MiniMaxAI/MiniMax-M2.7": 228_703_644_928 - 62 * 256,
    "nvidia/MiniMax-M2.5-NVFP4": 116_349_510_656,
    "nvidia/MiniMax-M2.7-NVFP4": 116_349_510_656,
    "nvidia/Gemma-4-31B-IT-NVFP4": 20_868_591_152,
    "nvidia/Gemma-4-26B-A4B-NVFP4": 14_386_941_232,
    "nvidia/Qwen3.5-122B-A10B-NVFP4": 64_580_759_280,
    "nvidia/Qwen3.6-27B-NVFP4": 18_164_649_200,
    "nvidia/Qwen3.6-35B-A3B-NVFP4": 18_683_860_336,
    "RadixArk/Qwen3.8-27B-NVFP4": 18_164_649_200,
    "deepreinforce-ai/Ornith-1.0-35B-FP8": 35_138_874_736,
    "deepreinforce-ai/Ornith-1.0-397B-FP8": 396_991_795_696,
    "Qwen/Qwen3-Coder-Next-FP8": 79_679_212_800,
    "meta-llama/Llama-3.1-405B-FP8": 405_868_625_920,
}
"""Values that the hub counts in the files, as llmfit 1.1.17 holds them.

Of nvfp4, pairs of codes without scales; of fp8, codes and scales, and with them those of the layer
that predicts further tokens. MiniMax's own have a correction of each expert's score beside them; of
M2.7 no scales are counted, and those of M2.5 stand for them.
"""
PREDICTORS = {
    "Qwen/Qwen3.6-27B-FP8": 27_781_427_952 - 27_356_728_560,
    "Qwen/Qwen3.6-35B-A3B-FP8": 35_951_822_704 - 35_107_181_936,
    "Qwen/Qwen3.5-122B-A10B-FP8": 125_086_497_008 - 122_562_817_776,
    "Qwen/Qwen3.5-397B-A17B-FP8": 403_397_928_944 - 396_802_360_816,
}
"""Parameters of that layer: what the published bf16 files hold beside the model."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_checkpoint_holds_what_is_published(name: str) -> None:
    """Which modules are packed, and in which of two formats, shows in the count of values."""
    entry = find_model(name)
    assert entry is not None
    model = load_architecture(entry)
    scheme = model.quantization
    assert scheme is not None
    placements = list(iter_placements(model, scheme))

    held = sum(_count_values(placed, scheme) for placed in placements)

    predictor = PREDICTORS.get(name, 0)
    assert held + predictor + _count_predictor_scales(name, placements) == PUBLISHED[name]


def _count_values(placed: WeightPlacement, scheme: Scheme) -> int:
    """Return the values of all occurrences of a weight, as files hold them."""
    values = placed.weight.numel * placed.num_unpacked
    own = placed.num_packed - sum(count for _, count in placed.other_formats)
    for kind, count in ((scheme, own), *placed.other_formats):
        if count and kind.packing is Packing.NVFP4:
            values += placed.weight.numel * count // 2
        elif count:
            values += placed.weight.numel * count + _count_scales(placed, kind) * count
    return values


def _count_scales(placed: WeightPlacement, kind: Scheme) -> int:
    """Return the scales of a matrix that are no scalars."""
    num, rows, _ = placed.matrix_shape
    return num * rows if kind.per_row else _count_squares(placed, kind)


def _count_squares(placed: WeightPlacement, kind: Scheme) -> int:
    if kind.block is None:
        return 0
    num, rows, columns = placed.matrix_shape
    return num * ceil(rows / kind.block[0]) * ceil(columns / kind.block[1])


def _count_predictor_scales(name: str, placements: list[WeightPlacement]) -> int:
    """Return the scales of one more layer of the kind with full attention."""
    if name not in PREDICTORS:
        return 0
    return sum(
        _count_squares(placed, Scheme(packing=Packing.FP8, block=(128, 128)))
        for placed in _list_attention_layer(placements)
    )


def _list_attention_layer(placements: list[WeightPlacement]) -> list[WeightPlacement]:
    """Return the packed weights of the last kind of layers, which has full attention."""
    packed = [placed for placed in placements if placed.num_packed]
    first = next(
        index for index, placed in enumerate(packed) if "self_attn.q_proj" in placed.weight.name
    )
    return packed[first:]


@pytest.mark.parametrize("entry", list_packed_models(), ids=lambda entry: entry.name)
def test_every_packed_model_has_a_recording_and_a_source(entry: ModelEntry) -> None:
    """The config that is posted is read as the name is."""
    bases = {base.name: base for base in list_recorded_models()}

    assert entry.base is not None
    assert entry.recording == bases[entry.base].recording
    assert entry.model_type == bases[entry.base].model_type
    assert re.search(r"at [0-9a-f]{40}|\d+\.\d+\.\d+", entry.source)
    assert load_architecture(entry).quantization is not None
    posted = read_source({"hf_config": json.loads(json.dumps(load_config(entry)))})
    assert posted.fingerprint() == load_architecture(entry).fingerprint()


def test_names_of_packed_models_are_their_own() -> None:
    """No other entry answers for them, and no stored model may take one."""
    names = [name for entry in list_packed_models() for name in (entry.name, *entry.aliases)]

    assert len({name.casefold() for name in names}) == len(names)
    assert {name.casefold() for name in names} <= list_model_names()
    assert all(find_model(name) in list_packed_models() for name in names)


def test_a_packed_model_is_served_by_name() -> None:
    """Half of the weights' bytes of the same model in 16 bits, and it is listed."""
    question = {
        "gpu": "H100-SXM5-80GB",
        "workload": {"task": "serve", "engine": "vllm", "num_sequences": 4, "prompt_tokens": 512},
    }
    with served() as client:
        plain, packed = (
            client.post("/v1/fit", json=question | {"model": model}).json()
            for model in ("Qwen/Qwen3.6-27B", "Qwen/Qwen3.6-27B-FP8")
        )
        shown = client.get("/v1/models/qwen3.5-27b-fp8").json()

    weights = [
        next(part["bytes"] for part in answer["per_gpu"]["components"] if part["name"] == "weights")
        for answer in (plain, packed)
    ]
    assert 0.5 < weights[1] / weights[0] < 0.6
    assert shown["aliases"] == ["Qwen/Qwen3.5-27B-FP8", "Qwen/Qwen3.6-27B-FP8"]
