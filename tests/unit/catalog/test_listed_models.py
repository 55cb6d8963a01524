"""Models that a package lists: each like one of the catalogue, or a shape whose total is proved."""

import json
import re
import zlib
from typing import Any

import pytest

from service.catalog.listed_models import LISTED, find_listed, load_listed_architecture
from service.catalog.models import find_model, list_all_models, load_architecture, load_config
from service.catalog.spellings import read_spelling
from service.contract.to_question.models import ResolvedModel, read_spelled
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.weights import weight_bytes
from service.estimator.values.dtypes import DType
from tests.corpus.packed_listings import count_values

DOCUMENT: dict[str, Any] = json.loads(zlib.decompress(LISTED.read_bytes(), 31))


def test_a_shape_has_the_published_total() -> None:
    """To the parameter: of each shape, by our count, against what its weights have."""
    totals = {
        shape["ids"][0]: load_listed_architecture(shape["ids"][0]).parameter_counts().total
        for shape in DOCUMENT["shapes"]
    }

    assert totals == {shape["ids"][0]: shape["total"] for shape in DOCUMENT["shapes"]}
    assert len(totals) > 400


def test_what_is_like_a_model_of_the_catalogue_is_not_packed() -> None:
    """A list of shapes does not say how weights are packed: nothing packed stands for it."""
    entries = {entry.name: entry for entry in list_all_models()}

    assert entries.keys() >= DOCUMENT["same"].keys()
    configs = [load_config(entries[name]) for name in DOCUMENT["same"]]
    assert [config for config in configs if "quantization_config" in config] == []


def test_a_name_has_one_meaning() -> None:
    """No id is listed twice, and none is an alias of the catalogue."""
    ids = [id_ for listed in DOCUMENT["same"].values() for id_ in listed]
    parts = ("shapes", "heads", "packed")
    ids += [id_ for part in parts for shape in DOCUMENT[part] for id_ in shape["ids"]]

    assert len({id_.casefold() for id_ in ids}) == len(ids)
    assert [id_ for id_ in ids if find_model(id_) is not None] == []


@pytest.mark.parametrize(
    "text",
    [
        "NousResearch/Hermes-4-70B",
        "nousresearch/hermes-4-70b",
        "https://huggingface.co/NousResearch/Hermes-4-70B",
    ],
)
def test_a_fine_tune_is_its_base(text: str) -> None:
    """Its name in any case, or its address; the answer says what it was read as."""
    spelling = read_spelling(text)

    assert spelling.entry is find_model("llama-3.1-70b")
    assert spelling.note.startswith(
        "model = llama-3.1-70b, with whose type, shape, context and total"
    )


def test_a_job_is_rendered_with_the_weights_that_were_asked_for() -> None:
    """Not with those of the model that has their shape."""
    base = ResolvedModel(
        architecture=load_listed_architecture("mistralai/Ministral-8B-Instruct-2410"),
        name="llama-2-13b",
        checkpoints=("meta-llama/Llama-2-13b-hf",),
    )

    like = read_spelled("NousResearch/Hermes-4-70B", lambda _: base)
    shaped = read_spelled("mistralai/Ministral-8B-Instruct-2410", lambda _: base)

    assert like.checkpoints == ("NousResearch/Hermes-4-70B",)
    assert shaped.checkpoints == ("mistralai/Ministral-8B-Instruct-2410",)
    assert isinstance(shaped.architecture, Architecture)
    assert shaped.architecture.parameter_counts().total == 8_019_808_256
    assert shaped.notes[0].startswith("model = mistralai/Ministral-8B-Instruct-2410: the shape")


@pytest.mark.parametrize(
    ("name", "head", "num_labels"),
    [
        ("dslim/bert-base-NER", "token_classification", 9),
        ("ProsusAI/finbert", "sequence_classification", 3),
        ("cross-encoder/ms-marco-MiniLM-L6-v2", "sequence_classification", 1),
    ],
)
def test_a_fine_tune_has_the_head_that_it_was_published_with(
    name: str, head: str, num_labels: int
) -> None:
    """The layers are those of its base, and the answer says where the head was read."""
    spelling = read_spelling(name)

    spec = load_listed_architecture(name).describe()
    assert (spec["head"], spec["num_labels"]) == (head, num_labels)
    assert spelling.checkpoint == name
    assert re.search(
        r"the shape of [\w.-]+ with the head that .+ at [0-9a-f]{40}, says", spelling.note
    )


def test_packed_weights_are_as_many_values_as_are_published() -> None:
    """Codes and a scale for each row: the head, or a tower of images, would make them more."""
    totals = [
        count_values(packed["entry"], packed["quantization_config"])
        for packed in DOCUMENT["packed"]
    ]

    assert totals == [packed["total"] for packed in DOCUMENT["packed"]]
    assert sum(len(packed["ids"]) for packed in DOCUMENT["packed"]) >= 35


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "llama-3.1-8b"),
        ("RedHatAI/Qwen3.5-9B-FP8-dynamic", "qwen3.5-9b"),
    ],
)
def test_packed_weights_of_a_preset_are_asked_by_name(name: str, base: str) -> None:
    """Of written and of recorded models: half the bytes of the linear layers, and the scales."""
    entry = find_model(base)
    assert entry is not None

    model = read_spelled(name, lambda _: pytest.fail("it is no entry")).architecture

    assert isinstance(model, Architecture)
    assert model.quantization is not None
    packed = weight_bytes(model, model.quantization, DType.BF16)
    plain = load_architecture(entry).weight_bytes(DType.BF16)
    assert packed.total == plain - packed.quantised + packed.scales


def test_packed_weights_are_not_taken_for_whole_ones() -> None:
    """The name of a format asks for the config that says how weights are packed."""
    assert find_listed("hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4") is None
    assert find_listed("mlx-community/Qwen3-8B-4bit") is None
