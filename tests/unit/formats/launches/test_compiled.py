"""What ``torch.compile`` of a launch is, and a loss with smoothed labels."""

import pytest

from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from tests.unit.formats.launches.importing import get_part, import_launch

TRAIN = "train.py --model_name_or_path meta-llama/Llama-3.1-8B --bf16 --max_length 2048"
_ARGUMENTS = {"model": "meta-llama/Llama-3.1-8B", "max_length": 2048, "bf16": True}


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


@pytest.mark.parametrize(
    ("launcher", "factor"),
    [(Launcher.TRAINER, 0.1), (Launcher.TRAINER, -1), (Launcher.TRL_SFT, 0.1)],
)
def test_a_smoothed_loss_is_refused(launcher: Launcher, factor: float) -> None:
    """It takes more than the plain one, so that an answer without it would be too low.

    Trainer smooths by whatever is not 0.
    """
    refusal = f"label_smoothing_factor is {factor}; expected 0"
    with pytest.raises(LaunchFormatError, match=refusal) as refused:
        import_launch(launcher=launcher, arguments=_ARGUMENTS | {"label_smoothing_factor": factor})

    assert refused.value.field == "arguments"


@pytest.mark.parametrize(
    ("launcher", "factor"),
    [(Launcher.TRAINER, 0.0), (Launcher.TRL_SFT, 0), (Launcher.TRL_DPO, 0.1)],
)
def test_a_loss_that_is_not_smoothed_has_no_use_for_it(launcher: Launcher, factor: float) -> None:
    """Trainers of preferences have losses of their own."""
    arguments = _ARGUMENTS | {"label_smoothing_factor": factor}

    imported = import_launch(launcher=launcher, arguments=arguments)

    assert "label_smoothing_factor" in imported.without_effect
