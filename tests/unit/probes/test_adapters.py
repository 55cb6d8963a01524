"""Adapters that a probe puts on a model, and what it trains in full beside them."""

import pytest

from service.estimator.memory.trained import select_trained_parameters
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.heads.config import put_head_in_config
from service.estimator.values.dtypes import DType
from service.estimator.values.heads import Head
from service.estimator.values.workload import Lora, Method
from tests.builders import a_training
from tests.tiny_models import tiny_config
from worker.probes.models.build import add_adapters, build_model


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("model_type", ["llama", "bert", "roberta", "distilbert", "modernbert"])
@pytest.mark.parametrize("head", [Head.SEQUENCE_CLASSIFICATION, Head.QUESTION_ANSWERING])
def test_peft_trains_what_is_counted(model_type: str, head: Head) -> None:
    """Adapters on all linear layers and a copy of the head, in number and in bytes."""
    config, lora = put_head_in_config(tiny_config(model_type), head, None), Lora(rank=4)
    workload = a_training(precision="bf16", method=Method.LORA, lora=lora)
    model = architecture_from_config(config)
    trained = select_trained_parameters(model, workload)
    built = build_model(
        config,
        layers=range(model.num_hidden_layers),
        dtype=DType.BF16,
        attention="sdpa",
        device="meta",
    )
    parameters = [
        (parameter.numel(), parameter.element_size())
        for parameter in add_adapters(built, lora, head).parameters()
        if parameter.requires_grad
    ]

    assert sum(numel for numel, width in parameters if width == 4) == trained.trained
    assert sum(numel for numel, width in parameters if width == 2) == trained.saved_head.numel
