"""Adapters on layers that are named by ends of their paths, held against traces."""

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Lora, Method, TrainWorkload
from tests.builders import a_device
from tests.tiny_models import tiny_config
from tests.unit.probes.trace.patched_steps import Step

_GATED_EXPERTS = ("shared_expert.gate_proj", "shared_expert.up_proj", "shared_expert.down_proj")


def train(*targets: str) -> TrainWorkload:
    """Return a step with adapters on some layers."""
    return TrainWorkload(
        sequence_length=96,
        micro_batch_size=2,
        precision=POLICIES["bf16_autocast"],
        method=Method.LORA,
        lora=Lora(rank=16, targets=targets),
    )


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
@pytest.mark.filterwarnings("ignore:The following .* keys did not match:RuntimeWarning")
@pytest.mark.parametrize(
    "step",
    [
        Step(family="llama", workload=train("self_attn.q_proj", "mlp.up_proj", "o_proj")),
        Step(family="qwen2_moe", workload=train("q_proj", *_GATED_EXPERTS)),
        # PEFT takes the last parts for those of the routed experts, which transformers merged.
        Step(
            family="qwen3_next",
            workload=train("linear_attn.in_proj_ba", *_GATED_EXPERTS),
            changes={"num_hidden_layers": 4},
        ),
    ],
    ids=lambda step: step.family,
)
def test_ends_of_paths_name_the_layers_that_peft_adapts(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target with a dot is compared with the end of a layer's path."""
    assert step.predict() == step.trace(monkeypatch, lambda _model: None)


def test_an_end_of_no_path_is_refused() -> None:
    """PEFT finds no such module either."""
    model = architecture_from_config(tiny_config("llama"))

    with pytest.raises(InvalidInputError, match=r"cross_attn\.q_proj"):
        estimate(model, train("cross_attn.q_proj"), layout=Layout(), device=a_device())
