"""Models that read images, against parameters and live bytes of real models of their classes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from service.catalog.models import load_architecture, load_config, resolve_model
from service.estimator.estimate import estimate
from service.estimator.memory.trained import select_trained_parameters
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import InvalidConfigError, InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Attention, Checkpointing, Lora, Method
from tests.builders import a_device, a_serving, a_training
from tests.unit.estimator.model.families.vision.vision_models import SMALL

_TOKENS = {"vit": 65, "clip": 32}
_BATCH = {"vit": 8, "clip": 8}
_IMAGES: dict[str, dict[str, Any]] = {
    "vit": {},
    "clip": {},
    "llava": {"num_images": 2},
    "llava_whole": {"num_images": 2},
    "gemma3": {"num_images": 1},
    "qwen2_vl": {"num_images": 2, "image_tokens": 16},
    "qwen2_5_vl": {"num_images": 2, "image_tokens": 16},
}
_TOLERANCE_BYTES = 1024
"""Copies of shifted labels differ by one sequence's; the tracer's scalars and grids are a few bytes
more.
"""
_EAGER = {"attention": Attention.EAGER}
_CHECKPOINTED = _EAGER | {"activation_checkpointing": Checkpointing.FULL}
_ADAPTED = _EAGER | {"method": Method.LORA, "lora": Lora(rank=8, targets=("q_proj", "v_proj"))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """Live bytes above weights and buffers of a model of transformers 5.23: the peaks of forward
    and of backward.
    """

    family: str
    precision: str
    peaks: tuple[int, int]
    words: Mapping[str, Any] = field(default_factory=dict)
    idle: int = 0


_ROWS = (
    Traced(family="vit", precision="bf16", peaks=(10247628, 11142272)),
    Traced(family="vit", precision="amp_bf16", peaks=(16182308, 17063576)),
    Traced(family="vit", precision="fp32", peaks=(6396160, 13758448), words=_CHECKPOINTED),
    Traced(family="vit", precision="bf16", peaks=(12753632, 13153156), words=_ADAPTED),
    Traced(family="clip", precision="bf16", peaks=(5976182, 6164014)),
    Traced(family="clip", precision="fp32", peaks=(2122944, 9966796), words=_CHECKPOINTED),
    Traced(family="clip", precision="bf16", peaks=(5971968, 6089860), words=_ADAPTED),
    Traced(family="llava", precision="bf16", peaks=(3461960, 3374264), idle=445248),
    Traced(family="llava", precision="amp_bf16", peaks=(8148552, 7119032), idle=445248),
    Traced(
        family="llava", precision="fp32", peaks=(1095264, 6700200), words=_CHECKPOINTED, idle=445248
    ),
    Traced(family="llava", precision="bf16", peaks=(3612896, 3523400), words=_ADAPTED, idle=6144),
    Traced(family="llava_whole", precision="bf16", peaks=(3750240, 4234048), idle=384),
    Traced(family="gemma3", precision="bf16", peaks=(5655968, 5807504)),
    Traced(family="gemma3", precision="amp_bf16", peaks=(9829792, 9937808)),
    Traced(family="gemma3", precision="bf16", peaks=(5579032, 5714184), words=_ADAPTED),
    Traced(family="qwen2_vl", precision="bf16", peaks=(9408624, 10363160)),
    Traced(family="qwen2_vl", precision="bf16", peaks=(10913544, 11235320), words=_EAGER),
    Traced(family="qwen2_vl", precision="bf16", peaks=(2526344, 2661496), words=_ADAPTED),
    Traced(family="qwen2_5_vl", precision="bf16", peaks=(12816592, 13574264)),
    Traced(family="qwen2_5_vl", precision="bf16", peaks=(2526344, 2661496), words=_ADAPTED),
)
_PARAMETERS = {
    "vit": 1386634,
    "clip": 1967009,
    "llava": 2017216,
    "llava_whole": 2017216,
    "gemma3": 1608448,
    "qwen2_vl": 2368832,
    "qwen2_5_vl": 2785248,
}


def _model(family: str) -> Architecture:
    return architecture_from_config(SMALL[family])


def _ask(model: Architecture, **words: Any) -> Estimate:  # noqa: ANN401 - any field of a workload
    layout = words.pop("layout", Layout())
    return estimate(model, a_training(**words), layout=layout, device=a_device())


@pytest.mark.parametrize("family", _PARAMETERS)
def test_parameters_are_those_of_the_built_model(family: str) -> None:
    """Towers, projections, class tokens and positions are there, and nothing else."""
    assert _model(family).parameter_counts().total == _PARAMETERS[family]


@pytest.mark.parametrize(
    "row", _ROWS, ids=lambda row: f"{row.family}-{row.precision}-{len(row.words)}"
)
def test_a_step_holds_what_the_real_model_held(row: Traced) -> None:
    """Patches, towers, projections, scattered features, contrasts and classes, each with what
    autograd keeps of it.
    """
    answer = _ask(
        _model(row.family),
        precision=row.precision,
        optimizer="sgd",
        sequence_length=_TOKENS.get(row.family, 64),
        micro_batch_size=_BATCH.get(row.family, 2),
        keeps_logits=True,
        fp32_outputs=False,
        **_IMAGES[row.family],
        **row.words,
    )

    peaks = [phase.allocated_bytes - answer.steady_bytes for phase in answer.phases[:2]]
    assert peaks == pytest.approx(row.peaks, abs=_TOLERANCE_BYTES)


@pytest.mark.parametrize(
    "row", _ROWS, ids=lambda row: f"{row.family}-{row.precision}-{len(row.words)}"
)
def test_layers_that_nothing_reads_get_no_states(row: Traced) -> None:
    """LLaVA reads the last but one hidden state of its tower: the last layer and norm get no
    gradient.
    """
    model = _model(row.family)
    workload = a_training(**_IMAGES[row.family], **row.words)
    every = model.counts.total if workload.lora is None else _adapter_elements(model)

    assert every - select_trained_parameters(model, workload).trained == row.idle


def _adapter_elements(model: Architecture) -> int:
    inner = [(layer, count) for block, count in model.blocks for layer in block.linears()]
    layers = [*inner, *((layer, 1) for layer in model.outer_linears)]
    named = [(layer, count) for layer, count in layers if layer.target in {"q_proj", "v_proj"}]
    return sum(8 * (layer.in_features + layer.out_features) * count for layer, count in named)


@pytest.mark.parametrize("family", SMALL)
def test_a_loop_that_drops_the_outputs_holds_less(family: str) -> None:
    """Features, embeddings and hidden states that outputs hold go with them, before backward."""
    words = {
        "sequence_length": _TOKENS.get(family, 64),
        "precision": "bf16",
        "optimizer": "sgd",
    } | _IMAGES[family]

    kept, dropped = (
        _ask(_model(family), keeps_logits=keeps, **words).phases for keeps in (True, False)
    )

    assert kept[0] == dropped[0]
    assert kept[1].allocated_bytes > dropped[1].allocated_bytes


@pytest.mark.parametrize("family", ["llava", "gemma3"])
def test_text_alone_leaves_the_tower_idle(family: str) -> None:
    """Without images tower and projection are weights only: no gradients, no states, nothing of
    them is run.
    """
    model = _model(family)
    assert model.images is not None
    idle = sum(weight.numel for weight in model.images.weights)

    text, both = (
        _ask(model, precision="bf16", sequence_length=64, num_images=images) for images in (None, 1)
    )

    assert model.counts.total - select_trained_parameters(model, a_training()).trained == idle
    assert text.phases[0].allocated_bytes < both.phases[0].allocated_bytes
    assert both.steady_bytes - text.steady_bytes == 2 * 2 * (
        idle - sum(weight.numel for weight in model.images.unread_weights)
    )


@pytest.mark.parametrize(
    ("family", "words", "field", "match"),
    [
        ("llava", {"num_images": 5, "sequence_length": 64}, "sequence_length", "80 of a sequence"),
        ("llava", {"image_tokens": 17}, "image_tokens", "takes 16"),
        ("qwen2_vl", {"num_images": 2}, "image_tokens", "as many tokens as its size asks for"),
        ("vit", {"num_images": 2, "sequence_length": 65}, "num_images", "one image per sequence"),
        ("clip", {"image_tokens": 16, "sequence_length": 32}, "image_tokens", "takes 17"),
        ("clip", {"sequence_length": 33}, "sequence_length", "learned positions for 32"),
        ("vit", {"sequence_length": 66}, "sequence_length", "learned positions for 65"),
    ],
)
def test_images_that_cannot_be_are_refused(
    family: str, words: Mapping[str, Any], field: str, match: str
) -> None:
    """The refusal names the word, and what would be right."""
    with pytest.raises(InvalidInputError, match=match) as refusal:
        _ask(_model(family), **words)

    assert refusal.value.field == f"workload.{field}"


@pytest.mark.parametrize("words", [{"num_images": 1}, {"image_tokens": 64}])
def test_a_text_model_takes_no_images(words: Mapping[str, int]) -> None:
    """A word about images is refused where nothing would read them."""
    model = load_architecture(resolve_model("llama-3.2-1b"))

    with pytest.raises(InvalidInputError, match="takes no images"):
        _ask(model, **words)


def test_fsdp2_refuses_a_scalar_parameter() -> None:
    """``fully_shard`` raises for CLIP's factor of similarities."""
    layout = Layout(data_parallel=4, zero_stage=3, sharding=Sharding.FSDP2)

    with pytest.raises(InvalidInputError, match="scalar parameter"):
        _ask(_model("clip"), sequence_length=32, layout=layout)


@pytest.mark.parametrize(
    ("family", "changes", "kind", "field"),
    [
        ("vit", {"architectures": ["ViTModel"]}, NotModelledError, "architectures"),
        ("vit", {"patch_size": 7}, NotModelledError, "patch_size"),
        ("clip", {"architectures": ["CLIPTextModel"]}, NotModelledError, "architectures"),
        ("clip", {"text_config": "clip"}, InvalidConfigError, "text_config"),
        ("llava", {"vision_feature_layer": [-2, -5]}, NotModelledError, "vision_feature_layer"),
        ("llava", {"vision_feature_layer": -9}, InvalidConfigError, "vision_feature_layer"),
        ("llava", {"vision_feature_layer": 0}, NotModelledError, "vision_feature_layer"),
        ("llava", {"vision_config": 7}, InvalidConfigError, "vision_config"),
        ("qwen2_vl", {"vision_config": []}, InvalidConfigError, "vision_config"),
        (
            "qwen2_5_vl",
            {"vision_config": {"fullatt_block_indexes": "all"}},
            InvalidConfigError,
            "fullatt_block_indexes",
        ),
        ("llava", {"text_config": {"model_type": "gemma"}}, NotModelledError, "text_config"),
        (
            "llava",
            {"vision_config": {"model_type": "siglip_vision_model"}},
            NotModelledError,
            "vision_config",
        ),
    ],
)
def test_other_towers_and_heads_are_refused(
    family: str, changes: dict[str, object], kind: type[Exception], field: str
) -> None:
    """What has other weights or another loss is named."""
    with pytest.raises(kind) as refusal:
        architecture_from_config(SMALL[family] | changes)

    assert getattr(refusal.value, "field", None) == field


def test_text_is_served_as_by_the_text_model() -> None:
    """The tower adds its weights and the positions of its patches to every instant, and nothing
    else.
    """
    config = load_config(resolve_model("llava-1.5-7b"))
    text_config = config["text_config"]
    assert isinstance(text_config, Mapping)
    both, text = architecture_from_config(config), architecture_from_config(text_config)
    workload = a_serving(prompt_tokens=512, output_tokens=8)

    answers = [
        estimate(model, workload, layout=Layout(), device=a_device()) for model in (both, text)
    ]

    tower = 2 * (both.counts.total - text.counts.total) + 8 * 577
    for with_tower, without in zip(answers[0].instants, answers[1].instants, strict=True):
        assert with_tower.allocated_bytes == without.allocated_bytes + tower
