"""Recordings of classes without a loss, and of those that have no cache."""

from functools import cache

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.recorded_models import load_recorded_architecture
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.recorded.architecture import RecordedArchitecture, build_recorded
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import (
    Checkpointing,
    Engine,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
)
from tests.builders import a_device, a_serving, a_training
from tests.traces.recording import record_kept

CONFIG = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "vocab_size": 1000,
}
"""An embedding model, with the pooler that its class has and that no embedding reads."""


@cache
def record() -> RecordedArchitecture:
    """Return the recording of the embedding model."""
    return build_recorded(record_kept(CONFIG, "half", "half/frozen", "half/forward"))


@pytest.mark.parametrize(
    "workload",
    [
        a_training(),
        a_training(activation_checkpointing=Checkpointing.FULL),
        a_training(method=Method.LORA, lora=Lora(rank=8)),
        a_serving(num_sequences=16, prompt_tokens=300, output_tokens=0),
    ],
)
def test_an_embedding_model_takes_the_bytes_of_the_written_family(
    workload: TrainWorkload | ServeWorkload,
) -> None:
    """A step compares the mean of positions, and serving is one pass.

    Where the forward ends and the loss begins is not told in a recording.
    """
    answers = [
        estimate(model, workload, layout=Layout(), device=a_device())
        for model in (record(), architecture_from_config(CONFIG))
    ]

    recorded, written = (
        [
            (instant.name, instant.allocated_bytes)
            for instant in answer.instants
            if instant.name not in {"forward", "loss"}
        ]
        for answer in answers
    )
    assert recorded == written


def test_what_no_loss_reads_has_no_states() -> None:
    """FNet's masked model has a pooler that its loss never sees; its optimizer neither."""
    fnet = load_recorded_architecture("fnet-default")

    assert is_recorded(fnet)
    assert "fnet.pooler.dense.weight" in fnet.unread_names
    assert "pooler.dense.weight" in record().unread_names
    assert "encoder.layer.0.output.dense.weight" not in record().unread_names


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        (a_serving(output_tokens=8), "generates nothing; say 0"),
        (
            a_serving(output_tokens=0, engine=Engine.SGLANG, num_sequences=4),
            "bert",
        ),
    ],
)
def test_what_is_served_by_one_pass_generates_nothing(workload: ServeWorkload, words: str) -> None:
    """Tokens of an answer are refused."""
    with pytest.raises(EstimatorError, match=words):
        estimate(record(), workload, layout=Layout(), device=resolve_gpu("L4").to_device())
