"""The model catalogue: every config is there, read one at a time, and refused in words where it
cannot be read.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from service.base.errors import UnknownModelError
from service.catalog import models
from service.catalog.models import (
    ModelEntry,
    find_model,
    list_all_models,
    list_model_names,
    list_models,
    load_architecture,
    load_config,
    resolve_model,
)
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import EstimatorError, NotModelledError

CONFIGS = Path(models.__file__).with_name("configs")
PUBLISHED_PARAMETERS: dict[str, int] = json.loads(
    Path(__file__).with_name("published_parameters.json").read_bytes()
)["totals"]


def test_every_config_is_listed_and_every_listed_model_has_one() -> None:
    """Index and files agree, down to the model_type."""
    files = {
        path.stem: json.loads(path.read_bytes())["model_type"] for path in CONFIGS.glob("*.json")
    }

    assert {entry.name: entry.model_type for entry in list_models()} == files


def test_has_the_models_that_people_ask_for() -> None:
    """At least 125 models, most of which the estimator reads, and 80 held to a published total."""
    assert len(list_models()) >= 125
    assert len(models.list_supported_models()) >= 125
    assert len(PUBLISHED_PARAMETERS) >= 80


@pytest.mark.parametrize("entry", list_models(), ids=lambda entry: entry.name)
def test_every_model_says_where_its_config_came_from(entry: ModelEntry) -> None:
    """A source names a page, a package with its release, or a repository at a commit."""
    assert re.search(
        r"https://huggingface\.co/[\w.-]+/[\w.-]+/|\d+\.\d+\.\d+|at [0-9a-f]{40}", entry.source
    )


def test_no_name_or_alias_means_two_models() -> None:
    """Names are unique whatever their case."""
    names = [
        name.casefold() for entry in list_all_models() for name in (entry.name, *entry.aliases)
    ]

    assert sorted(set(names)) == sorted(names)
    assert len(list_model_names()) == len(names)


@pytest.mark.parametrize(
    "name", ["llama-2-7b", "meta-llama/Llama-2-7b-hf", "META-LLAMA/llama-2-7b-HF"]
)
def test_finds_a_model_by_name_or_hub_id(name: str) -> None:
    """A hub id means the catalogue's model, in any case."""
    entry = resolve_model(name)

    assert entry.name == "llama-2-7b"
    assert load_config(entry)["hidden_size"] == 4096


def test_an_unknown_model_is_refused() -> None:
    """Another spelling is no name of the catalogue."""
    with pytest.raises(UnknownModelError, match="llama2-7b"):
        resolve_model("llama2-7b")

    assert find_model("llama2-7b") is None


@pytest.mark.parametrize(("name", "parameters"), PUBLISHED_PARAMETERS.items())
def test_architecture_has_the_published_number_of_parameters(name: str, parameters: int) -> None:
    """The config in the catalogue is the one of the model whose weights the hub counts."""
    assert load_architecture(resolve_model(name)).parameter_counts().total == parameters


@pytest.mark.parametrize("entry", list_models(), ids=lambda entry: entry.name)
def test_a_model_is_read_or_refused_with_its_field(entry: ModelEntry) -> None:
    """What cannot be read says so each time anew, and ``supported`` says it beforehand."""
    if entry.supported:
        assert load_architecture(entry).parameter_counts().total > 0
        return

    refusals = []
    for _ in range(2):
        with pytest.raises(EstimatorError) as refused:
            load_architecture(entry)
        refusals.append(refused.value)
    assert refusals[0] is not refusals[1]
    assert refusals[0].message == refusals[1].message


def test_a_family_without_terms_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue that is ahead of the families names the model and its family, and what is
    modelled.
    """
    monkeypatch.setattr("service.estimator.model.families.registry._FAMILIES", {"llama": "llama"})
    monkeypatch.setattr(
        "service.catalog.models._architecture",
        lambda _: architecture_from_config({"model_type": "whisper"}),
    )

    with pytest.raises(NotModelledError, match=r"'whisper-tiny'.*'whisper'"):
        load_architecture(resolve_model("openai/whisper-tiny"))


def test_loading_one_model_reads_no_other_config() -> None:
    """A cold start pays for the index and one file."""
    program = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from service.catalog.models import load_architecture, resolve_model
load_architecture(resolve_model("llama-2-7b"))
print(sum("/configs/" in path and path.endswith(".json") for path in opened))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )

    assert ran.stdout.strip() == "1"


@pytest.mark.parametrize(
    ("name", "positions"),
    [
        ("Qwen/Qwen3-30B-A3B", 40960),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", 262144),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", 262144),
        ("Qwen/Qwen3-235B-A22B-Thinking-2507", 262144),
        ("Qwen/Qwen3-4B-Instruct-2507", 262144),
        ("Qwen/Qwen2.5-7B", 131072),
        ("Qwen/Qwen2.5-7B-Instruct", 32768),
        ("Qwen/Qwen2.5-Math-7B", 4096),
        ("Qwen/QwQ-32B", 40960),
        ("zai-org/GLM-4.6", 202752),
    ],
)
def test_a_hub_id_has_the_positions_of_its_own_config(name: str, positions: int) -> None:
    """What an engine without max_model_len makes room for: models of one shape differ in it."""
    assert load_config(resolve_model(name))["max_position_embeddings"] == positions
