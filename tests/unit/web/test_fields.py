"""Forms offer what the API takes: every scalar of a request has its field, with the words and bounds of its struct."""

import re

import msgspec
import pytest

from service.estimator.workload import Engine
from service.web.fields import FORMS, fields_of, objectives
from service.web.pages import render


@pytest.mark.parametrize("form", FORMS)
def test_nothing_of_a_request_is_left_out(form: str) -> None:
    """Each field of the struct is a field of the form, or the root of some."""
    names = fields_of(form)

    for field in msgspec.structs.fields(FORMS[form]):
        assert any(name == field.encode_name or name.startswith(f"{field.encode_name}.") for name in names), field.encode_name


@pytest.mark.parametrize("form", FORMS)
def test_each_field_is_on_the_page_once(form: str) -> None:
    """The page shows every field of every form, and none twice."""
    shown = re.findall(rf'id="{form}-([a-z0-9_-]+)"', render("explore.html").body.decode())

    assert sorted(shown) == sorted(name.replace(".", "-") for name in fields_of(form))


def test_a_field_knows_what_it_takes() -> None:
    """Choices have the words of their enums, integers their bounds, sizes a unit; a choice or an object is a choice."""
    serve, train, layout = fields_of("serve"), fields_of("train"), fields_of("layout")

    assert serve["engine"].options == tuple(engine.value for engine in Engine)
    assert (train["micro_batch_size"].kind, train["micro_batch_size"].least) == ("integer", 1)
    assert (train["precision"].kind, "bf16_mixed" in train["precision"].options) == ("choice", True)
    assert (layout["host_memory_bytes"].kind, layout["reshard_after_forward"].kind) == ("size", "switch")
    assert train["lora.target_modules"].options == ("all-linear",)
    assert (train["sequence_length"].is_required, train["optimizer"].is_required) == (True, False)
    assert "fewest_gpus" in objectives()


def test_a_field_has_a_readable_label() -> None:
    """Labels are words, with acronyms as people write them and seconds as a unit."""
    labels = {name: field.label for form in FORMS for name, field in fields_of(form).items()}

    assert labels["kv_cache_dtype"] == "KV cache dtype"
    assert labels["zero_stage"] == "ZeRO stage"
    assert labels["num_sequences"] == "Sequences"
    assert labels["max_step_time_s"] == "Max step time (s)"
