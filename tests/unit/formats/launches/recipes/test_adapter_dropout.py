"""Dropout before adapters, as launches set it."""

from typing import Any

import pytest

from tests.unit.formats.launches.importing import get_part, import_launch

_AXOLOTL = "base_model: meta-llama/Llama-3.1-8B\nmicro_batch_size: 2\nadapter: lora\nlora_r: 8\n"
_POLICY = (
    "python3 -m openrlhf.cli.train_ppo_ray --algo.advantage.estimator group_norm "
    "--actor.model_name_or_path Qwen/Qwen2.5-7B --ds.lora.rank 8"
)


def _read_adapters(**handed_in: Any) -> Any:  # noqa: ANN401 - of a question
    return get_part(import_launch(**handed_in), "workload")["lora"]


@pytest.mark.parametrize(
    ("lines", "dropout"), [("", None), ("lora_dropout: 0\n", 0.0), ("lora_dropout: 0.05\n", 0.05)]
)
def test_dropout_is_that_of_peft(lines: str, dropout: float | None) -> None:
    """Unsaid it is none, as PEFT has it."""
    lora = _read_adapters(files={"a.yaml": _AXOLOTL + lines})

    assert lora.get("dropout") == dropout


def test_trls_own_script_drops_by_default() -> None:
    """Its ``ModelConfig`` says 0.05 where ``LoraConfig`` says nothing."""
    command = "trl sft --model_name_or_path meta-llama/Llama-3.1-8B --use_peft"

    assert _read_adapters(command=command)["dropout"] == 0.05
    assert _read_adapters(command=f"{command} --lora_dropout 0.2")["dropout"] == 0.2


def test_openrlhfs_policies_drop() -> None:
    """Its flag goes to PEFT as it is."""
    assert _read_adapters(command=f"{_POLICY} --ds.lora.dropout 0.1")["dropout"] == 0.1


def test_doras_dropout_is_read() -> None:
    """The base is computed once more with it, which is counted."""
    text = f"{_AXOLOTL}peft_use_dora: true\nlora_dropout: 0.05\n"

    imported = import_launch({"a.yaml": text})

    assert get_part(imported, "workload")["lora"]["dropout"] == 0.05
    assert imported.ignored == ()
