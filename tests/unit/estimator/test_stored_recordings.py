"""Recordings as bytes, and a store of them between two caches."""

from dataclasses import replace

import pytest

from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.memory.training_pass import build_training_pass
from service.estimator.passes.padded_recordings import get_unpadded
from service.estimator.passes.recorder import log_training, record_training
from service.estimator.passes.recording_codec import (
    decode_candidates,
    decode_events,
    encode_candidates,
    encode_events,
)
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.result import Detail
from service.estimator.values.workload import Checkpointing, Lora, Method
from tests.builders import a_model, a_training

_DEVICE = Device(name="card", capacity_bytes=2**40, usable_bytes=2**40)
_FSDP = Layout(data_parallel=4, zero_stage=3, sharding=Sharding.FSDP2)
_LORA = {"method": Method.LORA, "lora": Lora(rank=4)}


class _Shelf(dict[str, bytes]):
    """A store that lives as long as a test, and knows what was asked of it."""

    def read(self, key: str) -> bytes | None:
        return self.get(key)

    def write(self, key: str, data: bytes) -> None:
        self[key] = data


@pytest.mark.parametrize("layout", [Layout(), _FSDP])
@pytest.mark.parametrize("changes", [{}, _LORA, {"activation_checkpointing": Checkpointing.FULL}])
def test_a_recording_is_what_was_written(changes: dict[str, object], layout: Layout) -> None:
    """Points with their parts in order, and events with their gradients and shards."""
    model = a_model()
    config = build_training_pass(model, replace(a_training(), **changes), layout)  # type: ignore[arg-type]  # each field has its own type
    candidates, events = record_training(model, config), log_training(model, config)

    assert decode_candidates(encode_candidates(candidates)) == candidates
    assert decode_events(encode_events(events)) == events


def test_a_second_cache_records_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers to the byte from what the first one left in the store."""
    shelf, workload = _Shelf(), a_training()

    def answer(plans: PlanCache) -> object:
        return estimate(
            a_model(),
            workload,
            layout=Layout(),
            device=_DEVICE,
            plans=plans,
            detail=Detail.REPLAYED,
        )

    first = answer(PlanCache(store=shelf))
    for name in ("record_training", "log_training"):
        monkeypatch.delattr(f"service.estimator.passes.stored_recordings.{name}")

    assert answer(PlanCache(store=shelf)) == first
    assert len(shelf) == 2


def test_what_differs_in_padding_shares_one_in_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points and logs of any number of ranks are filled up from what another process recorded."""
    shelf, model = _Shelf(), a_model()
    odd = {
        ranks: build_training_pass(model, a_training(), replace(_FSDP, data_parallel=ranks))
        for ranks in (3, 5, 7)
    }
    first = PlanCache(store=shelf)
    for ranks in (3, 5):
        first.get_training(model, odd[ranks])
    expected = record_training(model, odd[7])
    for name in ("record_training", "record_unpadded"):
        monkeypatch.delattr(f"service.estimator.passes.stored_recordings.{name}")

    assert get_unpadded(model, odd[7]) is not None
    assert PlanCache(store=shelf).get_training(model, odd[7]) == expected
    assert [key.partition(" ")[0] for key in shelf].count("unpadded") == 1
    assert [key.partition(" ")[0] for key in shelf].count("training") == 3


def test_a_smaller_model_has_recordings_of_its_own() -> None:
    """Everything that decides a recording is in its key."""
    shelf = _Shelf()
    for layers in (2, 3):
        estimate(
            a_model(num_hidden_layers=layers),
            a_training(),
            layout=Layout(),
            device=_DEVICE,
            plans=PlanCache(store=shelf),
        )

    assert len(shelf) == 2
