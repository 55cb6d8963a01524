"""Heads that PEFT trains in full beside adapters."""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.models import load_config, resolve_model
from service.estimator.estimate import estimate
from service.estimator.memory.head_copies import list_head_warnings
from service.estimator.memory.setup import resolve_setup
from service.estimator.memory.timeline import build_train_timeline
from service.estimator.memory.trained import select_trained_parameters
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.heads.config import put_head_in_config
from service.estimator.values.dtypes import DType
from service.estimator.values.heads import Head
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import Lora, Method, TrainWorkload
from tests.builders import a_config, a_device, a_sharded_layout, a_training
from tests.tiny_models import tiny_config


def _build(model_type: str, head: Head) -> Architecture:
    return architecture_from_config(put_head_in_config(tiny_config(model_type), head, 3))


def _adapt(**changes: Any) -> TrainWorkload:  # noqa: ANN401 - each field has its own type
    words: dict[str, Any] = {
        "method": Method.LORA,
        "lora": Lora(rank=4),
        "precision": "bf16",
    } | changes
    return a_training(**words)


@pytest.mark.parametrize(
    ("model_type", "modules"),
    [
        ("llama", {"score"}),
        ("bert", {"classifier"}),
        ("roberta", {"classifier"}),
        ("distilbert", {"classifier", "pre_classifier"}),
        ("modernbert", {"classifier"}),
    ],
)
def test_the_copied_modules_end_in_pefts_words(model_type: str, modules: set[str]) -> None:
    """DistilBERT's first layer ends in classifier too, and BERT's pooler does not."""
    model = _build(model_type, Head.SEQUENCE_CLASSIFICATION)
    head = select_trained_parameters(model, _adapt()).saved_head

    assert {weight.name.split(".")[0] for weight, _ in head.weights} == modules
    assert head.dtype is DType.BF16


def test_a_copy_in_the_adapters_format_is_stepped_with_them() -> None:
    """Under autocast both are fp32, and no list is apart."""
    model, workload = _build("llama", Head.SEQUENCE_CLASSIFICATION), _adapt(precision="amp_bf16")
    trained = select_trained_parameters(model, workload)
    plain = select_trained_parameters(architecture_from_config(tiny_config("llama")), workload)

    assert trained.saved_head.numel == 0
    assert trained.trained == plain.trained + 3 * model.spec.hidden_size


def test_qlora_leaves_the_head_to_be_trained() -> None:
    """Its norms and its head are cast to fp32, and what trains is no packed layer."""
    model = _build("roberta", Head.SEQUENCE_CLASSIFICATION)
    workload = _adapt(method=Method.QLORA, fp32_norms_and_head=True)
    setup = resolve_setup(model, workload, Layout())

    assert setup.base_weights.dtype is DType.FP32
    assert {weight.name for weight, _ in setup.trained.weights} >= {
        "classifier.dense.weight",
        "classifier.out_proj.weight",
    }
    assert any("llm_int8_skip_modules" in text for text in list_head_warnings(model, workload))


@pytest.mark.parametrize(
    ("model_type", "head", "warned"),
    [
        ("llama", Head.SEQUENCE_CLASSIFICATION, False),
        ("llama", Head.TOKEN_CLASSIFICATION, True),
        ("distilbert", Head.SEQUENCE_CLASSIFICATION, True),
    ],
)
def test_what_peft_fails_at_is_said(model_type: str, head: Head, *, warned: bool) -> None:
    """all-linear puts adapters on a head before it is named to be trained in full."""
    model, few = _build(model_type, head), Lora(rank=4, targets=("q_proj", "q_lin"))

    assert bool(list_head_warnings(model, _adapt())) is warned
    assert not list_head_warnings(model, _adapt(lora=few))


def test_the_formula_tells_the_copy_from_the_adapters() -> None:
    """It is in another number format than they."""
    model = architecture_from_config(a_config(architectures=["LlamaForSequenceClassification"]))
    answer = estimate(model, _adapt(), layout=Layout(data_parallel=2), device=a_device())

    assert "of the head" in next(
        part.formula for part in answer.components if part.name == "adapters"
    )


def test_a_sharded_step_is_that_of_transformers() -> None:
    """A llama of 4 layers with 5 scores on rank 0 of 4 of FSDP2, as it was traced with the same
    probe: states to the byte, passes within two thousandths.
    """
    config = {**load_config(resolve_model("llama-3.2-1b")), "num_hidden_layers": 4}
    model = architecture_from_config(put_head_in_config(config, Head.SEQUENCE_CLASSIFICATION, 5))
    workload = _adapt(lora=Lora(rank=8), micro_batch_size=2, sequence_length=256)
    phases = dict(
        build_train_timeline(model, workload, a_sharded_layout(4, sharding=Sharding.FSDP2)).phases
    )

    assert phases["optimizer_step"] == 260072704
    assert phases["forward_pass"] == pytest.approx(1556323600, rel=0.0015)
    assert phases["backward_pass"] == pytest.approx(1633916350, rel=0.001)


def test_a_checkpoint_has_the_copy_and_its_states() -> None:
    """A head in bf16 is stored with two states beside the adapters in fp32."""
    config = tiny_config("llama")
    model = _build("llama", Head.SEQUENCE_CLASSIFICATION)
    answers = [
        estimate(each, _adapt(), layout=Layout(), device=a_device()).checkpoint
        for each in (model, architecture_from_config(config))
    ]

    extra = 3 * model.spec.hidden_size * 2
    first, second = answers
    assert first is not None
    assert second is not None
    assert first == replace(
        second, weights=second.weights + extra, optimizer=second.optimizer + 2 * extra
    )
