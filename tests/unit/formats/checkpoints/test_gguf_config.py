"""Models of GGUF files: their trees are those of the configs that the files were written from."""

import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import EstimatorError, NotModelledError
from service.formats.checkpoints.gguf_document import GgufModel
from service.formats.checkpoints.gguf_model import build_gguf_architecture, list_gguf_differences
from service.formats.checkpoints.gguf_sums import get_kind, place_tensors, sum_tensors
from tests.tiny_models import tiny_config
from tests.unit.formats.checkpoints.files import list_models, read_expected, read_model

LOST: dict[str, dict[str, object]] = {
    "mistral": {"family": "llama"},
    "mixtral": {"sliding_window": None},
    "mpt": {"max_position_embeddings": 2048},
}
"""What converters do not write: a file of a mistral says llama, and has no window."""


@pytest.mark.parametrize("name", list_models())
def test_a_file_is_the_model_that_it_was_written_from(name: str) -> None:
    """Every number of the spec is the config's, and the tree's parameters are transformers' own."""
    model = read_model(name)
    config = architecture_from_config({"model_type": name, **tiny_config(name)})

    found = build_gguf_architecture(model.describe())

    assert asdict(found.spec) == {**asdict(config.spec), **LOST.get(name, {})}
    assert found.parameter_counts().total == read_expected()[name]["parameters"]
    assert list(list_gguf_differences(model, found)) == []


@pytest.mark.parametrize("name", list_models())
def test_every_tensor_is_in_one_sum(name: str) -> None:
    """Bytes by type, by kind and by place each make the whole file."""
    model = read_model(name)
    sums = sum_tensors(model)

    placed = place_tensors(model, len(sums.by_layer))

    assert sum(sums.by_type.values()) == sum(sums.by_kind.values()) == model.total_bytes
    assert "other" not in sums.by_kind
    in_layers = [layer.experts + layer.rest for layer in placed.by_layer]
    assert in_layers == list(sums.by_layer)
    is_tied = not any(tensor.name == "output.weight" for tensor in model.tensors)
    table = next(tensor.bytes for tensor in model.tensors if tensor.name == "token_embd.weight")
    assert placed.table + placed.head + placed.layers == model.total_bytes + is_tied * table


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("token_embd.weight", "embedding"),
        ("output.weight", "lm_head"),
        ("output_norm.weight", "norm"),
        ("blk.3.attn_q.bias", "attention"),
        ("blk.3.attn_q_norm.weight", "norm"),
        ("blk.3.ffn_gate_inp.weight", "router"),
        ("blk.3.ffn_up_exps.weight", "mlp_experts"),
        ("blk.3.ffn_up_shexp.weight", "mlp"),
        ("blk.3.ssm_a", "mamba"),
        ("rope_freqs.weight", "other"),
    ],
)
def test_a_tensor_has_the_kind_of_its_name(name: str, kind: str) -> None:
    """Kinds are those of a model's parameters by module."""
    assert get_kind(name) == kind


def test_an_architecture_that_no_family_stands_for_is_refused_with_its_bytes() -> None:
    """The refusal still says what the file holds."""
    document = read_model("llama").describe()
    document["metadata"] = {"general.architecture": "rwkv7"}

    with pytest.raises(NotModelledError) as refused:
        build_gguf_architecture(document)

    assert f"{read_expected()['llama']['bytes']:,} bytes in 30 tensors" in refused.value.message
    assert "'rwkv7'" in refused.value.message
    assert refused.value.field == "metadata.general.architecture"


def test_a_projector_is_no_model() -> None:
    """A file for --mmproj is named as one."""
    document = read_model("llama").describe()
    document["metadata"] = {"general.architecture": "clip"}

    with pytest.raises(EstimatorError, match="which --mmproj loads"):
        build_gguf_architecture(document)


def test_numbers_that_differ_from_layer_to_layer_are_refused() -> None:
    """Such a file is not read as if its first layer were all of them."""
    model = read_model("llama")
    heads = {"llama.attention.head_count_kv": [2, 2, 4]}
    changed = GgufModel(metadata={**model.metadata, **heads}, tensors=model.tensors)

    with pytest.raises(NotModelledError, match="head_count_kv that differs"):
        build_gguf_architecture(changed.describe())


def test_a_missing_number_is_named() -> None:
    """The refusal points into the metadata."""
    document = read_model("llama").describe()
    document["metadata"] = {"general.architecture": "llama"}

    with pytest.raises(EstimatorError) as refused:
        build_gguf_architecture(document)

    assert (refused.value.field or "").startswith("metadata")


@pytest.mark.parametrize("value", [0, -1, 1.5, "many", True, None, {}])
def test_a_number_that_is_none_is_refused(value: object) -> None:
    """No count of heads or layers is divided by, or guessed."""
    document = read_model("gpt_neox").describe()
    metadata = {**read_model("gpt_neox").metadata, "gptneox.attention.head_count": value}

    with pytest.raises(EstimatorError) as refused:
        build_gguf_architecture(document | {"metadata": metadata})

    assert "metadata" in (refused.value.field or "")


def test_tensors_beside_the_tree_are_said() -> None:
    """A file whose tensors are not those of its metadata is not passed over in silence."""
    model = read_model("llama")
    cut = GgufModel(metadata=model.metadata, tensors=model.tensors[:5] + model.tensors[6:])

    lines = list(list_gguf_differences(cut, build_gguf_architecture(cut.describe())))

    assert len(lines) == 1
    assert "elements where a llama of its metadata has 699,264" in lines[0]


def test_layers_that_are_not_loaded_are_told_of_any_number() -> None:
    """Twenty thousand of their tensors are told of in one line."""
    model = read_model("llama")
    spare = tuple(replace(model.tensors[0], name=f"blk.99.{index}") for index in range(20_000))

    (line,) = list_gguf_differences(
        replace(model, tensors=model.tensors + spare), build_gguf_architecture(model.describe())
    )

    assert "are not loaded" in line


def test_the_page_lists_every_architecture() -> None:
    """docs/models.md names what is read."""
    page = Path("docs/models.md").read_text(encoding="utf-8").partition("### Files")[2]
    named = re.findall(r"`([a-z0-9_-]+)`", page.partition("is one of")[2].partition(";")[0])

    document = read_model("llama").describe() | {"metadata": {"general.architecture": "other"}}

    with pytest.raises(NotModelledError) as refused:
        build_gguf_architecture(document)

    assert sorted(named) == sorted(refused.value.modelled)
