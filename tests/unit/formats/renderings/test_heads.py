"""Launches of models with another head than a language model's."""

from dataclasses import replace

import pytest

from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.workload import Lora, Method
from service.formats.renderings.heads import get_task_type
from service.formats.renderings.job import Job, Launch
from service.formats.renderings.serving import launch_serving
from service.formats.renderings.training import launch_training
from tests.builders import a_config, a_serving, a_training
from tests.unit.formats.renderings.builders import a_job


def _job(name: str, **changes: object) -> Job:
    model = architecture_from_config(a_config(architectures=[name], **changes))
    return replace(a_job(), model=model)


def _train(job: Job) -> Launch:
    return launch_training(job, a_training(precision="bf16"))


def test_a_classifier_is_loaded_with_its_labels() -> None:
    """A script that leaves them out would get two."""
    launch = _train(_job("LlamaForSequenceClassification", num_labels=7))

    assert launch.objects["from_pretrained"]["num_labels"] == 7  # type: ignore[index]  # an object of keywords
    assert "the script loads AutoModelForSequenceClassification" in launch.notes


def test_an_embedding_model_is_called_and_not_generated_from() -> None:
    """It runs one pass for each batch."""
    workload = a_serving(output_tokens=0)
    launch = launch_serving(replace(_job("LlamaModel"), workload=workload), workload)

    assert "generate" not in launch.objects
    assert "the script loads AutoModel" in launch.notes


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("LlamaForCausalLM", "CAUSAL_LM"),
        ("LlamaModel", "FEATURE_EXTRACTION"),
        ("LlamaForSequenceClassification", "SEQ_CLS"),
        ("LlamaForTokenClassification", "TOKEN_CLS"),
        ("LlamaForQuestionAnswering", "QUESTION_ANS"),
    ],
)
def test_adapters_know_the_task(name: str, task: str) -> None:
    """PEFT trains a head by the name of the task."""
    assert get_task_type(_job(name).model) == task


def test_adapters_leave_the_head_to_be_trained() -> None:
    """Adapters on all linear layers, and bitsandbytes, would take a head with a bias as well."""
    job = _job("LlamaForTokenClassification")
    workload = a_training(precision="bf16", method=Method.QLORA, lora=Lora(rank=4))
    objects = launch_training(job, workload).objects

    assert objects["LoraConfig"]["modules_to_save"] == ["score"]  # type: ignore[index]  # an object of keywords
    packed = objects["from_pretrained"]["quantization_config"]  # type: ignore[index]  # an object of keywords
    assert packed["llm_int8_skip_modules"] == ["score"]
