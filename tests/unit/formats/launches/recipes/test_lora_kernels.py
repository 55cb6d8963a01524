"""Axolotl's kernels for adapters: what turns them on, and where they have a term."""

import pytest

from service.formats.launches.read_launch import read_launch
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import (
    Checkpoint,
    ImportedLaunch,
    Launch,
    LaunchFile,
)
from tests.unit.formats.launches.importing import get_part

_BASE = "base_model: a/b\nsequence_len: 4096\nmicro_batch_size: 2\nlora_target_linear: true\n"
_LORA = f"{_BASE}adapter: lora\n"
_QLORA = f"{_BASE}adapter: qlora\nload_in_4bit: true\n"
_ALL = ["qkv", "o", "mlp"]


def read(text: str, family: str = "llama") -> ImportedLaunch:
    """Return a file's question about a model of a family."""
    return read_launch(
        Launch(
            launcher=None,
            files=(LaunchFile(name="a.yaml", content=text),),
            command=(),
            arguments={},
            find_checkpoint=lambda _name: Checkpoint(model_type=family, dtype="bfloat16"),
        )
    )


@pytest.mark.parametrize(
    ("text", "kernels"),
    [
        (_LORA, _ALL),
        (_QLORA, _ALL),
        (f"{_QLORA}lora_dropout: 0.05\n", _ALL),
        (f"{_LORA}lora_mlp_kernel: null\n", _ALL),
        (f"{_LORA}lora_mlp_kernel: false\n", None),
        (f"{_LORA}lora_mlp_kernel: true\nlora_o_kernel: true\n", ["o", "mlp"]),
        (f"{_LORA}lora_embedding_kernel: true\n", None),
        (f"{_LORA}load_in_8bit: true\n", None),
        (f"{_LORA}trust_remote_code: true\n", None),
        (f"{_LORA}rl: dpo\n", None),
        (f"{_LORA}fsdp_config:\n  offload_params: false\n", None),
        (f"{_LORA}peft_use_dora: true\n", None),
        (_BASE, None),
    ],
)
def test_kernels_run_as_axolotl_decides(text: str, kernels: list[str] | None) -> None:
    """One key that is said turns all others off; 8 bits, code of a hub and preferences do too."""
    adapters = get_part(read(text), "workload").get("lora", {})

    assert adapters.get("kernels") == kernels


@pytest.mark.parametrize("line", ["load_in_8bit: true", "trust_remote_code: true"])
def test_what_axolotl_stops_at_is_refused(line: str) -> None:
    """Its schema takes neither beside a kernel that is asked for."""
    with pytest.raises(LaunchFormatError, match="lora_qkv_kernel"):
        read(f"{_LORA}lora_qkv_kernel: true\n{line}\n")


def test_kernels_without_a_term_are_named() -> None:
    """An attention that axolotl does not patch is counted with PEFT's modules, and so are pairs."""
    asked = read(f"{_LORA}rl: dpo\nlora_qkv_kernel: true\n")
    untold = read(_LORA, "phi3")

    assert asked.ignored == ("lora_qkv_kernel",)
    assert any("in the attention of phi3" in warning for warning in untold.warnings)
    assert "kernels" not in get_part(untold, "workload")["lora"]


def test_a_head_of_one_score_is_warned_of() -> None:
    """Axolotl turns them on there too, and stops at the head."""
    rewards = read(f"{_LORA}reward_model: true\n")

    assert any("a head of one score" in warning for warning in rewards.warnings)
