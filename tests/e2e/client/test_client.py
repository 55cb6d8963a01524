"""The client against a live server: everything that it offers, and what it makes of refusals."""

from dataclasses import replace

import pytest

from service.client.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    ProblemError,
    StaleError,
)
from service.client.generated.models import FitAnswer, HowManyAnswer, LayoutRequest, TrainRequest
from service.client.headroom import Headroom
from service.client.stored import Until

GPU = "A100-SXM4-80GB"
TRAIN = TrainRequest(task="train", sequence_length=1024, method="lora")
CLUSTER = {
    "name": "prod-a",
    "pools": [{"name": "a100", "gpu": GPU, "gpus_per_node": 8, "nodes": [{"name": "n1"}]}],
}
CONFIG = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2}


def test_questions_are_answered(headroom: Headroom) -> None:
    """Fit alone and in bulk agree, as do how many and plans; ceilings and the catalogue are typed
    as well.
    """
    one = headroom.fit(
        "gpt2", workload=TRAIN, gpu=GPU, layout=LayoutRequest(data_parallel=2, zero_stage=3)
    )
    question = {
        "model": "gpt2",
        "workload": TRAIN,
        "gpu": GPU,
        "layout": {"data_parallel": 2, "zero_stage": 3},
    }
    many = list(headroom.fit_many([question, question | {"gpu": "B-52"}, question], detail="full"))
    needed = headroom.how_many("llama-2-7b", workload=TRAIN, gpu=GPU, constraints={"max_gpus": 64})
    planned = headroom.plan(
        {"model": "llama-2-7b", "workload": TRAIN, "gpus": [GPU], "constraints": {"max_gpus": 64}}
    )
    most = headroom.ceiling(
        {"model": "gpt2", "workload": TRAIN, "gpu": GPU, "maximize": "micro_batch_size"}
    )

    assert (one.verdict, one.num_gpus) == ("fits", 2)
    assert isinstance(many[0], FitAnswer)
    assert many[0].per_gpu.device_bytes == one.per_gpu.device_bytes
    assert isinstance(many[1], ProblemError)
    assert (many[1].type, many[1].status) == ("unknown-gpu", 422)
    assert isinstance(needed, HowManyAnswer)
    assert needed.num_gpus == planned.num_gpus == planned.candidates[0].num_gpus
    assert most.value is not None
    assert most.value > 1
    assert GPU in {gpu.name for gpu in headroom.gpus()}
    assert headroom.version().name == "gpu-headroom"
    assert list(headroom.workers()) == []


def test_a_misspelt_word_is_refused_with_the_nearest(headroom: Headroom) -> None:
    """What the server says is what the caller can show."""
    with pytest.raises(InvalidRequestError) as caught:
        headroom.fit("gpt2", workload={"task": "train", "sequence_lenght": 1}, gpu=GPU)

    (wrong,) = caught.value.errors
    assert (wrong.field, wrong.nearest) == ("workload.sequence_lenght", "sequence_length")


def test_models_are_changed_by_whoever_saw_them(headroom: Headroom) -> None:
    """The second of two who saw the same revision is told so, and the catalogue is listed behind
    what is stored.
    """
    seen = headroom.models.create("tiny", {"hf_config": CONFIG})
    replaced = headroom.models.replace(seen, {"hf_config": CONFIG | {"n_layer": 3}})

    with pytest.raises(StaleError):
        headroom.models.replace(seen, {"hf_config": CONFIG})
    with pytest.raises(ConflictError):
        headroom.models.create("tiny", {"hf_config": CONFIG})
    assert headroom.models.read("tiny") == replaced
    names = [model.name for model in headroom.models.list()]
    assert names[0] == "tiny"
    assert "llama-2-7b" in names
    headroom.models.delete(replaced)
    with pytest.raises(NotFoundError):
        headroom.models.read("tiny")


def test_gpus_are_reserved_and_released(headroom: Headroom) -> None:
    """A key asks for the same reservation again; what is promised is not free for others until it
    is released.
    """
    seen = headroom.clusters.create(CLUSTER)
    reservations = headroom.reservations("prod-a")
    wanted = [{"pool": "a100", "node": "n1", "num_gpus": 6}]
    held = reservations.create("me", gpus=wanted, until=Until(seconds=60), idempotency_key="k1")

    assert (
        reservations.create(
            "me", gpus=wanted, until=Until(seconds=60), idempotency_key="k1"
        ).value.id
        == held.value.id
    )
    with pytest.raises(ConflictError) as caught:
        reservations.create("you", gpus=wanted, until=Until(seconds=60))
    assert caught.value.type == "gpus-not-free"
    assert [found.id for found in reservations.list()] == [held.value.id]
    assert headroom.clusters.read("prod-a").value.pools[0].free_gpus == 2
    reservations.release(reservations.read(held.value.id))
    assert list(reservations.list()) == []
    replaced = headroom.clusters.replace(seen, {"pools": CLUSTER["pools"]})
    headroom.clusters.delete(replaced)
    assert list(headroom.clusters.list()) == []


def test_a_cluster_is_imported_in_two_steps(headroom: Headroom) -> None:
    """What was shown is what is stored, whether the cluster was there or not."""
    node = {"name": "n1", "state": ["IDLE"], "gres": "gpu:nvidia_a100-sxm4-80gb:8"}
    listing = {"content": {"nodes": [node]}}

    shown = headroom.clusters.import_nodes("lab", listing)
    created = headroom.clusters.import_nodes("lab", {**listing, "apply": True}, seen=shown)
    again = headroom.clusters.import_nodes("lab", {**listing, "apply": True}, seen=created)

    assert (shown.value.created, shown.value.applied, shown.value.after.gpus) == (True, False, 8)
    assert (created.value.created, created.value.applied) == (True, True)
    assert (again.value.num_changes, again.etag) == (0, created.etag)
    with pytest.raises(StaleError):
        headroom.clusters.import_nodes(
            "lab", {**listing, "apply": True}, seen=replace(created, etag='"old"')
        )


def test_a_measurement_is_cancelled(headroom: Headroom) -> None:
    """Nobody measures here, so that it waits until it is cancelled, once or twice; its events say
    so, and end.
    """
    job = headroom.measure(
        {"model": "gpt2", "workload": TRAIN, "device": "cpu"}, idempotency_key="k2"
    )

    assert (
        headroom.measure(
            {"model": "gpt2", "workload": TRAIN, "device": "cpu"}, idempotency_key="k2"
        ).id
        == job.id
    )
    assert job.cancel().status == "cancelled"
    assert [event.data["status"] for event in job.events() if event.kind == "status"] == [
        "queued",
        "cancelled",
    ]
    assert headroom.measurement(job.id).wait(30).status == "cancelled"
    assert job.cancel().status == "cancelled"
