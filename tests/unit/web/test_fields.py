"""Forms offer what the API takes: every scalar of a request has its field, with the words and
bounds of its struct.
"""

import re

import msgspec
import pytest

from service.estimator.values.workload import Engine
from service.web.fields import FORMS, NOT_ON_FORMS, TRAINING_LAYOUT, get_fields, list_objectives
from service.web.pages import render
from tests.unit.api.builders import served

OTHER_THAN_DEFAULT = {
    "zero_stage": 3,
    "sharding": "fsdp2",
    "reshard_after_forward": False,
    "shard_embeddings_separately": True,
    "shard_size": 2,
    "virtual_pipeline_stages": 2,
    "sequence_parallel": True,
    "context_parallel_method": "ulysses",
    "pipeline_schedule": "gpipe",
    "pipeline_layers": [3, 1],
    "num_layers_in_first_pipeline_stage": 2,
    "num_layers_in_last_pipeline_stage": 2,
    "account_for_embedding_in_pipeline_split": True,
    "account_for_loss_in_pipeline_split": True,
    "pipeline_model_parallel_layout": "Et|tL",
    "partition_method": "uniform",
    "pipeline_parallel_layers_per_stage": 2,
    "pipeline_parallel_first_stage_less_layers": 2,
    "pipeline_parallel_last_stage_less_layers": 2,
}


@pytest.mark.parametrize("form", FORMS)
def test_nothing_of_a_request_is_left_out(form: str) -> None:
    """Each field of the struct is on the form, or the root of some, but lists of objects."""
    names = get_fields(form)
    fields = [
        field
        for field in msgspec.structs.fields(FORMS[form])
        if field.encode_name not in NOT_ON_FORMS
    ]

    for field in fields:
        assert any(
            name == field.encode_name or name.startswith(f"{field.encode_name}.") for name in names
        ), field.encode_name


@pytest.mark.parametrize("form", FORMS)
def test_each_field_is_on_the_page_once(form: str) -> None:
    """The page shows every field of every form, and none twice."""
    shown = re.findall(rf'id="{form}-([a-z0-9_-]+)"', render("explore.html").body.decode())

    assert sorted(shown) == sorted(name.replace(".", "-") for name in get_fields(form))


def test_a_field_knows_what_it_takes() -> None:
    """Choices have the words of their enums, integers their bounds, sizes a unit; a choice or an
    object is a choice.
    """
    serve, train, layout = get_fields("serve"), get_fields("train"), get_fields("layout")

    assert serve["engine"].options == tuple(engine.value for engine in Engine)
    assert (train["micro_batch_size"].kind, train["micro_batch_size"].least) == ("integer", 1)
    assert (train["precision"].kind, "bf16_mixed" in train["precision"].options) == ("choice", True)
    assert (layout["host_memory_bytes"].kind, layout["reshard_after_forward"].kind) == (
        "size",
        "switch",
    )
    assert train["lora.target_modules"].options == ("all-linear",)
    assert (serve["num_sequences"].is_required, train["sequence_length"].is_required) == (
        True,
        False,
    )
    assert "fewest_gpus" in list_objectives()


def test_a_field_has_a_readable_label() -> None:
    """Labels are words, with acronyms as people write them and seconds as a unit."""
    labels = {name: field.label for form in FORMS for name, field in get_fields(form).items()}

    assert labels["kv_cache_dtype"] == "KV cache dtype"
    assert labels["zero_stage"] == "ZeRO stage"
    assert labels["num_sequences"] == "Sequences"
    assert labels["max_step_time_s"] == "Max step time (s)"
    assert labels["max_cost_per_hour"] == "Max cost per hour (USD)"
    assert labels["min_num_sequences"] == "Min sequences"


def test_what_means_nothing_to_serving_is_offered_to_training_alone() -> None:
    """Each of these words of a layout is refused in serving, or said to have no effect; the page
    marks them and no other.
    """
    marked = re.findall(
        r'data-field="layout\.([a-z_]+)" data-task="train"', render("explore.html").body.decode()
    )
    workload = {"task": "serve", "engine": "vllm", "num_sequences": 4, "prompt_tokens": 512}
    question = {"model": "llama-2-7b", "gpu": "A100-SXM4-80GB", "workload": workload}
    with served() as client:
        answers = {
            name: client.post(
                "/v1/fit",
                json={
                    **question,
                    "layout": {"data_parallel": 2, "tensor_parallel": 2, name: value},
                },
            )
            for name, value in OTHER_THAN_DEFAULT.items()
        }

    assert set(marked) == set(OTHER_THAN_DEFAULT) == TRAINING_LAYOUT
    for name, answer in answers.items():
        assert answer.status_code == 422 or any(
            name in text for text in answer.json()["warnings"]
        ), name
