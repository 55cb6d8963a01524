"""What the names of real code hold, against traced steps of published models cut to two layers."""

from typing import Any

import pytest

from service.catalog.models import load_architecture, load_config, resolve_model
from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Attention, Checkpointing, Lora, Method
from tests.builders import a_device, a_training

_SCALAR_BYTES = 4
"""Weight of a mean loss, which nothing reads."""


def _list_peaks(model: Architecture, **words: Any) -> list[int]:  # noqa: ANN401 - any field of a workload
    workload = a_training(keeps_logits=True, fp32_outputs=False, **words)
    answer = estimate(model, workload, layout=Layout(), device=a_device())
    return [phase.allocated_bytes for phase in answer.phases]


def test_activations_take_the_name_of_what_a_feed_forward_read() -> None:
    """Whisper's norm is gone as the second product's weight is cast, in a recomputation too."""
    layers = {"encoder_layers": 2, "decoder_layers": 2, "num_hidden_layers": 2}
    config = {**load_config(resolve_model("whisper-large-v3")), **layers}

    peaks = _list_peaks(
        architecture_from_config(config),
        sequence_length=1500,
        decoder_length=20,
        micro_batch_size=3,
        precision="amp_bf16",
        optimizer="sgd",
        attention=Attention.FLASH,
        activation_checkpointing=Checkpointing.FULL,
        method=Method.LORA,
        lora=Lora(rank=64, targets=("q_proj", "v_proj")),
    )

    assert peaks[:2] == pytest.approx([931987208, 1039437232], abs=_SCALAR_BYTES)


def test_a_loop_over_parameters_holds_what_it_made_for_the_one_before() -> None:
    """DeepSeek-V2 makes experts before their router: attention's output is the one before."""
    model = load_architecture(resolve_model("deepseek-v2-lite")).with_layers(2)

    peaks = _list_peaks(
        model,
        sequence_length=256,
        micro_batch_size=2,
        precision="bf16",
        optimizer="adamw_loop",
        attention=Attention.SDPA,
    )

    assert peaks[2] == pytest.approx(10167083264, abs=_SCALAR_BYTES)
