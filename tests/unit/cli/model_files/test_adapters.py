"""Adapters of PEFT as places: their base, what a training of them asks, what has no word."""

import json
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from service.cli.model_files.naming import adopt_adapter, get_model
from service.cli.model_files.spelling import read_place

RANK, TARGETS = "workload.lora.rank", "workload.lora.target_modules"
VARIANT, METHOD = "workload.lora.variant", "workload.method"
KIND, DROPOUT = "workload.peft.type", "workload.lora.dropout"


def write_adapter(folder: Path, **changes: object) -> str:
    """Write an adapter of GPT-2, and return its place."""
    adapter = {"base_model_name_or_path": "gpt2", "peft_type": "LORA", "r": 8, "bias": "none"}
    adapter |= {"target_modules": ["c_proj", "c_attn"], "modules_to_save": None, **changes}
    (folder / "adapter_config.json").write_text(json.dumps(adapter))
    return str(folder)


def adopt(
    place: str, task: str = "train", said: Mapping[str, object] | None = None
) -> tuple[Any, dict[str, Any]]:
    """Return the model of an adapter, and the flags that are set then."""
    fields = {**dict.fromkeys((RANK, TARGETS, VARIANT, DROPOUT, METHOD, KIND)), **(said or {})}
    options = Namespace(task=task, **fields)
    return adopt_adapter(read_place(place), options), vars(options)


def test_an_adapter_is_its_base_with_its_own_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank and targets become what a training asks for, unless the command line says other."""
    model, said = adopt(write_adapter(tmp_path), said={RANK: 4})

    assert model == {"name": "gpt2"}
    assert (said[METHOD], said[RANK], said[TARGETS]) == ("lora", 4, ["c_attn", "c_proj"])
    assert "an adapter of gpt2" in (err := capsys.readouterr().err)
    assert "not counted" not in err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"modules_to_save": ["lm_head"]}, "modules_to_save: these modules are trained whole"),
        ({"rank_pattern": {"c_attn": 64}}, "rank_pattern: every adapter has the one rank"),
        ({"layers_to_transform": [0]}, "layers_to_transform: every layer is adapted"),
        ({"bias": "all"}, "bias: biases"),
        ({"target_parameters": ["experts.up"]}, "target_parameters: parameters of experts"),
        ({"target_modules": None}, "none is named, and every linear layer"),
        ({"target_modules": r"h\.(?=x)c_attn"}, "not run, every linear layer is adapted"),
    ],
)
def test_what_an_adapter_says_that_has_no_word_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], words: str
) -> None:
    """None of it is left out in silence."""
    adopt(write_adapter(tmp_path, **changes))

    assert words in capsys.readouterr().err


def test_a_pattern_names_the_layers_that_it_matches(tmp_path: Path) -> None:
    """PEFT takes a text with signs for a pattern, as Unsloth writes them."""
    _, said = adopt(write_adapter(tmp_path, target_modules=r".*\.(c_attn|c_proj)$"))

    assert said[TARGETS] == ["c_attn", "c_proj"]


def test_an_adapter_keeps_its_dropout(tmp_path: Path) -> None:
    """A training that goes on drops as it did."""
    _, said = adopt(write_adapter(tmp_path, lora_dropout=0.05))

    assert said[DROPOUT] == 0.05


def test_another_method_of_peft_goes_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is never counted as LoRA's."""
    _, said = adopt(write_adapter(tmp_path, peft_type="IA3", r=None))

    assert (said[METHOD], said[KIND], said[TARGETS]) == ("peft", "ia3", None)
    assert "its own rank and targets" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("task", "method", "words"),
    [
        ("serve", None, "counts as merged into its base"),
        ("train", "full", "left out: the method is full"),
    ],
)
def test_what_becomes_of_an_adapter_that_is_not_trained_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], task: str, method: str | None, words: str
) -> None:
    """Nothing of it is set then."""
    _, said = adopt(write_adapter(tmp_path), task, {METHOD: method})

    assert (said[METHOD], said[RANK]) == (method, None)
    assert words in capsys.readouterr().err


def test_a_base_that_is_a_directory_is_read_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As transformers has it, a directory of that name comes before a hub's model."""
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "config.json").write_text('{"model_type": "gpt2"}')
    monkeypatch.chdir(tmp_path)

    model, _ = adopt(write_adapter(tmp_path, base_model_name_or_path="tuned"))

    assert model["hf_config"] == {"model_type": "gpt2"}


def test_a_training_that_nobody_named_adopts_it_too(tmp_path: Path) -> None:
    """Its flags tell the task before the adapter is looked at."""
    given = {"workload.sequence_length": 64, RANK: None, TARGETS: None, METHOD: None}
    options = Namespace(task=None, config=None, head=None, num_labels=None, **given)
    options.model = write_adapter(tmp_path)

    model = get_model(options)

    assert model == {"name": "gpt2"}
    assert (options.task, getattr(options, METHOD)) == ("train", "lora")
