"""Heads that a config's architectures name, or a caller in their place."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.adapters.parameters import ADAPTER_PARTS
from service.estimator.model.families.registry import (
    architecture_from_config,
    architecture_from_spec,
)
from service.estimator.model.heads.classes import list_classes
from service.estimator.model.heads.config import put_head_in_config, put_head_in_spec
from service.estimator.values.errors import EstimatorError, InvalidInputError, NotModelledError
from service.estimator.values.heads import Head
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Engine
from tests.builders import a_config, a_device, a_serving, a_training

MINILM: Mapping[str, object] = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_attention_heads": 12,
    "num_hidden_layers": 6,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}
"""sentence-transformers/all-MiniLM-L6-v2."""
_BERT = {**MINILM, "architectures": None}


def test_an_embedding_model_has_no_language_model_head() -> None:
    """All-MiniLM-L6-v2 was answered with logits over its vocabulary, and trained in 36.6 GiB."""
    model = architecture_from_config(MINILM)
    workload = a_training(precision="fp32", micro_batch_size=256, sequence_length=256)
    answer = estimate(model, workload, layout=Layout(), device=a_device())

    assert model.parameter_counts().total == 22_713_216
    assert "logits" not in {component.name for component in answer.components}
    assert answer.allocated_bytes < 12 * 2**30


def test_an_embedding_model_is_served_by_one_pass() -> None:
    """Its pass has neither a cache nor logits."""
    workload = a_serving(num_sequences=256, prompt_tokens=256, output_tokens=0)
    answer = estimate(
        architecture_from_config(MINILM), workload, layout=Layout(), device=a_device()
    )

    assert answer.serving is not None
    assert answer.serving.kv_cache_bytes == 0
    assert {component.name for component in answer.components}.isdisjoint({"logits", "kv_cache"})


def test_a_pooler_that_no_loss_reads_is_not_trained() -> None:
    """It gets neither a gradient nor states, and neither does an adapter on it, but is loaded."""
    model = architecture_from_config(MINILM)

    unread = {f"pooler.dense.{part}" for part in ("weight", "bias", *ADAPTER_PARTS)}
    assert model.never_trained == unread


@pytest.mark.parametrize("name", ["BertForWhatever", "LlamaModel", "BertForPreTraining", "bert"])
def test_an_unknown_class_is_refused_with_the_known_ones(name: str) -> None:
    """It is never answered as something else."""
    with pytest.raises(
        NotModelledError, match=r"BertModel.*a head that is said instead"
    ) as refused:
        architecture_from_config({**MINILM, "architectures": [name]})

    assert name in refused.value.message
    assert refused.value.field == "architectures"


def test_architectures_must_be_names() -> None:
    """A number is no class."""
    with pytest.raises(EstimatorError, match="must list the name of a class"):
        architecture_from_config({**MINILM, "architectures": [3]})


def test_former_names_are_known() -> None:
    """The first llamas on the hub spell their class in another way."""
    config = a_config(architectures=["LLaMAForCausalLM"])

    assert architecture_from_config(config).task is None


@pytest.mark.parametrize("head", list_classes("bert").values())
def test_a_word_wins_over_the_config(head: Head) -> None:
    """What a caller says is as if the config named that class."""
    classes = {kind: name for name, kind in list_classes("bert").items()}
    named = architecture_from_config({**_BERT, "architectures": [classes[head]]})
    asked = architecture_from_config(
        put_head_in_config({**MINILM, "architectures": ["Unknown"]}, head, None)
    )

    assert asked.spec == named.spec


def test_a_reward_head_has_one_score() -> None:
    """It is sequence classification with one label, whatever the config names."""
    config = a_config(id2label={"0": "a", "1": "b", "2": "c"})
    plain = architecture_from_config(a_config(tie_word_embeddings=True))
    model = architecture_from_config(put_head_in_config(config, Head.REWARD, None))

    assert (model.spec.head, model.spec.num_labels) == ("sequence_classification", 1)
    assert model.parameter_counts().total == plain.parameter_counts().total + 64


@pytest.mark.parametrize(
    ("head", "labels", "message"),
    [
        (Head.REWARD, 2, "head reward has one score"),
        (Head.NONE, 3, "head none has no labels"),
        (Head.MASKED_LM, None, "head masked_lm of llama"),
    ],
)
def test_a_head_that_cannot_be_is_refused(head: Head, labels: int | None, message: str) -> None:
    """The refusal says which would be right."""
    with pytest.raises((InvalidInputError, NotModelledError), match=message):
        put_head_in_config(a_config(), head, labels)


def test_labels_are_those_that_are_named() -> None:
    """``id2label`` counts them, as transformers does; two is the default."""
    config = a_config(architectures=["LlamaForSequenceClassification"])
    named = {**config, "id2label": {"0": "bad", "1": "good", "2": "fine"}}

    assert architecture_from_config(named).spec.num_labels == 3
    assert architecture_from_config(config).spec.num_labels == 2


@pytest.mark.parametrize("head", ["none", "sequence_classification", "token_classification"])
def test_a_specification_says_its_head(head: str) -> None:
    """What GET shows is read back as the same model, with a fingerprint of its own."""
    plain = architecture_from_config(a_config())
    spec = put_head_in_spec(plain.describe(), Head(head), None)
    model = architecture_from_spec(spec)

    assert architecture_from_spec(model.describe()).spec == model.spec
    assert model.fingerprint() != plain.fingerprint()
    assert architecture_from_spec(put_head_in_spec(spec, Head.DEFAULT, None)).spec == plain.spec


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head": "causal_lm"}, "of llama it is default or none"),
        ({"head": "token_classification", "num_labels": 0}, "has 1 or more"),
    ],
)
def test_a_specification_of_no_head_is_refused(change: dict[str, Any], message: str) -> None:
    """A head has the words of its family, and a classifier its labels."""
    with pytest.raises(EstimatorError, match=message):
        architecture_from_spec({**architecture_from_config(a_config()).describe(), **change})


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG, Engine.LLAMA_CPP])
def test_engines_refuse_other_heads(engine: Engine) -> None:
    """They generate text, or make one result of a sequence, and none of each token."""
    model = architecture_from_config(a_config(architectures=["LlamaForTokenClassification"]))

    with pytest.raises(NotModelledError, match="with head token_classification"):
        estimate(model, a_serving(engine=engine), layout=Layout(), device=a_device())


def test_a_model_that_writes_nothing_has_no_output() -> None:
    """A reranker that is asked for tokens is told to ask for none."""
    model = architecture_from_config(a_config(architectures=["LlamaForSequenceClassification"]))

    with pytest.raises(InvalidInputError, match="generates nothing; say 0"):
        estimate(model, a_serving(output_tokens=8), layout=Layout(), device=a_device())


def test_an_image_classifier_has_the_labels_that_are_asked() -> None:
    """A ViT that was trained on ImageNet-21k is fine-tuned for ten classes of one's own."""
    config = {"model_type": "vit", "architectures": ["ViTModel"], "id2label": {"0": "a", "1": "b"}}
    asked = architecture_from_config(put_head_in_config(config, Head.IMAGE_CLASSIFICATION, 10))
    plain = architecture_from_config({"model_type": "vit", "num_labels": 2})
    spec = put_head_in_spec(plain.describe(), Head.IMAGE_CLASSIFICATION, 10)

    assert asked.parameter_counts().total - plain.parameter_counts().total == 8 * (768 + 1)
    assert architecture_from_spec(spec).spec == asked.spec
    with pytest.raises(NotModelledError, match="head none of vit"):
        put_head_in_config(config, Head.NONE, None)
