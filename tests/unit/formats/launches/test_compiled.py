"""What ``torch.compile`` of a launch is."""

import pytest

from tests.unit.formats.launches.importing import get_part, import_launch

TRAIN = "train.py --model_name_or_path meta-llama/Llama-3.1-8B --bf16 --max_length 2048"


@pytest.mark.parametrize(
    ("options", "compiles"),
    [
        ("--torch_compile true", True),
        ("--torch_compile_backend inductor", True),
        ("--torch_compile_mode default", True),
        ("--torch_compile true --torch_compile_backend eager", False),
        ("--torch_compile_backend aot_eager", False),
        ("--torch_compile false", False),
    ],
)
def test_a_backend_or_a_mode_turns_it_on(options: str, *, compiles: bool) -> None:
    """As in transformers, and a backend that compiles no kernel leaves the step as it is."""
    imported = import_launch(command=f"torchrun {TRAIN} {options}")

    assert get_part(imported, "workload").get("compile", False) is compiles
    assert not {key for key in imported.ignored if key.startswith("torch_compile")}


@pytest.mark.parametrize(
    "options", ["--torch_compile_backend cudagraphs", "--torch_compile_mode reduce-overhead"]
)
def test_the_pool_of_graphs_is_warned_of(options: str) -> None:
    """It has no term, and whoever asks reads so."""
    imported = import_launch(command=f"torchrun {TRAIN} {options}")

    assert any("CUDA graphs" in warning for warning in imported.warnings)
