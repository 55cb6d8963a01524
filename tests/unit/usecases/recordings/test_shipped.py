"""Shipped recordings, found by the config.json of a model that they answer for."""

from typing import Any

import pytest

from service.catalog.models import ModelEntry, list_recorded_models, load_config, resolve_model
from service.estimator.model.recorded.architecture import RecordedArchitecture
from service.estimator.values.errors import UnknownModelTypeError
from service.usecases.recordings.shipped import find_shipped_recording
from service.usecases.stored_specs.model_sources import (
    load_stored_architecture,
    make_content,
    read_source,
)
from tests.unit.api.builders import FIT, served

NOMIC = resolve_model("nomic-bert-default")


@pytest.mark.parametrize("entry", list_recorded_models(), ids=lambda entry: entry.name)
def test_a_config_finds_its_own_recording(entry: ModelEntry) -> None:
    """Whole, and where it is that of a type's defaults as the type alone."""
    assert find_shipped_recording(load_config(entry)) == entry
    found = find_shipped_recording({"model_type": entry.model_type})
    assert (found == entry) is not bool(entry.required)


@pytest.mark.parametrize(
    "fields",
    [
        {"torch_dtype": "float32", "transformers_version": "4.40.0", "bos_token_id": 7},
        {"hidden_size": 768, "layer_norm_eps": 1e-5, "output_attentions": False},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 5.0}, "problem_type": None},
        {"a_field_of_the_next_release": 1, "mlp_only_layers": [], "use_sliding_window": False},
    ],
)
def test_fields_without_effect_do_not_hide_it(fields: dict[str, Any]) -> None:
    """Ids of tokens, epsilons, the base of rotations, the default, and what no class reads."""
    assert find_shipped_recording({"model_type": "nomic_bert", **fields}) == NOMIC


@pytest.mark.parametrize(
    "fields",
    [
        {"hidden_size": 1024},
        {"architectures": ["NomicBertForSequenceClassification"]},
        {"quantization_config": {"quant_method": "bitsandbytes"}},
        {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 5.0}},
        {"tie_word_embeddings": False},
        {"sliding_window": 1024},
        {"is_decoder": True},
    ],
)
def test_another_model_is_not_taken_for_it(fields: dict[str, Any]) -> None:
    """Widths, classes, formats of weights, kinds of rotations, and what other classes read."""
    assert find_shipped_recording({"model_type": "nomic_bert", **fields}) is None


@pytest.mark.parametrize(
    ("field", "is_found"), [("hidden_size", False), ("attention_dropout", True)]
)
def test_a_published_config_says_what_its_class_does_not(*, field: str, is_found: bool) -> None:
    """What it leaves out has the default of its class, which is that of another size or its own."""
    entry = resolve_model("Qwen/Qwen3.6-27B")
    config = dict(load_config(entry))
    text = config["text_config"]
    assert isinstance(text, dict)
    cut = {name: value for name, value in text.items() if name != field}

    answering = find_shipped_recording(config | {"text_config": cut})

    assert (answering == entry) is is_found


def test_a_posted_config_is_stored_with_the_recording() -> None:
    """As if its document had been sent."""
    config = {"model_type": "nomic_bert", "bos_token_id": 7}

    content = make_content({"hf_config": config})

    assert content.recording is not None
    assert content.recording.digest == NOMIC.recording
    assert content.source == {"hf_config": config}
    assert isinstance(load_stored_architecture(content), RecordedArchitecture)


def test_packed_weights_are_kept_with_the_recording() -> None:
    """The same layers, in the format that the config says, stored and read again."""
    packed = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    config = {"model_type": "nomic_bert", "quantization_config": packed}

    content = make_content({"hf_config": config})

    scheme = load_stored_architecture(content).quantization
    assert scheme is not None
    assert scheme == read_source({"hf_config": config}).quantization
    assert content.recording is not None
    assert content.recording.digest == NOMIC.recording


def test_a_config_without_a_recording_is_refused_as_before() -> None:
    """The words name the type and what to do."""
    with pytest.raises(UnknownModelTypeError, match="headroom models record"):
        read_source({"hf_config": {"model_type": "nomic_bert", "hidden_size": 64}})


def test_a_fit_over_http_is_answered_at_once() -> None:
    """By the name, and by the config; there is no worker here."""
    workload = {"task": "train", "sequence_length": 512}
    with served() as client:
        question = FIT | {"workload": workload}
        named = client.post("/v1/fit", json=question | {"model": NOMIC.name}).json()
        posted = client.post(
            "/v1/fit", json=question | {"model": {"hf_config": {"model_type": "nomic_bert"}}}
        ).json()
        shown = client.get(f"/v1/models/{NOMIC.name}").json()

    assert named["verdict"] == "fits"
    assert named["per_gpu"] == posted["per_gpu"]
    assert shown["parameters"]["total"] == 137_354_304
    assert shown["architecture"]["recording"]["model_class"] == "NomicBertForMaskedLM"
