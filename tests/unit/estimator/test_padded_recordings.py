"""Recordings that differ in the padding of uneven shards: what they share, filled up."""

from dataclasses import replace
from typing import Any

import pytest

from service.estimator.backends.pass_cache import PassCache
from service.estimator.memory.training_pass import build_training_pass
from service.estimator.model.architecture import Architecture
from service.estimator.passes.config import TrainingPass
from service.estimator.passes.padded_recordings import (
    get_unpadded,
    log_unpadded,
    record_unpadded,
)
from service.estimator.passes.recorder import log_training, record_training
from service.estimator.tape.event_log import Events
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import Checkpointing, Lora, Method
from tests.builders import a_training
from tests.unit.planner.builders import shallow

_MODELS = {
    name: shallow(name, 4)
    for name in ("llama-2-7b", "mixtral-8x7b", "deepseek-v2-lite", "gemma-3-4b")
}
_ADAPTERS: dict[str, dict[str, Any]] = {
    "all weights": {},
    "LoRA": {"method": Method.LORA, "lora": Lora(rank=16)},
    "LoRA of queries": {"method": Method.LORA, "lora": Lora(rank=5, targets=("q_proj",))},
    "DoRA on 4 bits": {"method": Method.QLORA, "lora": Lora(rank=8, variant="dora")},
}


@pytest.mark.parametrize("model", _MODELS.values(), ids=_MODELS)
@pytest.mark.parametrize("checkpointing", [Checkpointing.NONE, Checkpointing.FULL])
@pytest.mark.parametrize("trained", _ADAPTERS.values(), ids=_ADAPTERS)
def test_what_is_filled_up_is_what_is_recorded(
    model: Architecture, checkpointing: Checkpointing, trained: dict[str, Any]
) -> None:
    """Points, their parts and their order are equal, whatever number of ranks it is."""
    configs = [_make_pass(model, ranks, checkpointing, **trained) for ranks in (3, 24, 129)]
    unpadded = [get_unpadded(model, config) for config in configs]
    assert unpadded[0] is not None
    shared = record_unpadded(model, unpadded[0])

    filled = [shared.pad(config.gathering) for config in configs if config.gathering]

    assert filled == [record_training(model, config) for config in configs]
    assert set(unpadded) == {unpadded[0]}
    assert len({config.gathering for config in configs}) == len(configs)


@pytest.mark.parametrize("model", _MODELS.values(), ids=_MODELS)
@pytest.mark.parametrize("trained", _ADAPTERS.values(), ids=_ADAPTERS)
def test_a_log_that_is_filled_up_is_what_is_logged(
    model: Architecture, trained: dict[str, Any]
) -> None:
    """Its events are equal, each with its size, whatever number of ranks it is."""
    configs = [_make_pass(model, ranks, Checkpointing.FULL, **trained) for ranks in (3, 7, 129)]
    unpadded = get_unpadded(model, configs[0])
    assert unpadded is not None
    shared = log_unpadded(model, unpadded)

    filled = [shared.pad(config.gathering) for config in configs if config.gathering]

    logged = [log_training(model, config) for config in configs]
    assert list(map(_list_events, filled)) == list(map(_list_events, logged))
    assert len({events.sizes for events in filled}) == len(configs)


@pytest.mark.parametrize(
    "other",
    [
        {"layout": Layout(data_parallel=4, zero_stage=3, sharding=Sharding.FSDP2)},
        {"layout": Layout(data_parallel=7, zero_stage=3, sharding=Sharding.FSDP1)},
        {"layout": Layout(data_parallel=7)},
        {"frozen": ("embedding",)},
    ],
    ids=["even shards", "flat parameters", "whole weights", "frozen weights"],
)
def test_others_have_recordings_of_their_own(other: dict[str, object]) -> None:
    """Nothing is shared where no shard is filled up, or units are no whole weights."""
    model, changes = _MODELS["llama-2-7b"], dict(other)
    layout = changes.pop("layout", _make_layout(7))
    assert isinstance(layout, Layout)
    workload = replace(a_training(), **changes)  # type: ignore[arg-type]  # each field has its own type

    unpadded = get_unpadded(model, build_training_pass(model, workload, layout))

    assert unpadded is None


def test_a_cache_shares_from_the_second_number_of_ranks_on() -> None:
    """Every one is what a recording of its own would be."""
    model, cache = _MODELS["llama-2-7b"], PassCache()
    configs = [_make_pass(model, ranks, Checkpointing.FULL) for ranks in (3, 7, 24)]

    cached = [cache.get_training(model, config) for config in configs]

    assert cached == [record_training(model, config) for config in configs]
    assert cache.get_training(model, configs[1]) is cached[1]


def _list_events(events: Events) -> tuple[object, ...]:
    """Return events with their sizes, of which two may have become one."""
    sized = [events.sizes[kind] for kind in events.kinds]
    return (
        sized,
        events.order,
        events.gradients,
        events.shards,
        events.buffers,
        events.list_streams(),
    )


def _make_layout(ranks: int) -> Layout:
    return Layout(data_parallel=ranks, zero_stage=3, sharding=Sharding.FSDP2)


def _make_pass(
    model: Architecture,
    ranks: int,
    checkpointing: Checkpointing,
    **trained: Any,  # noqa: ANN401 - each field has its own type
) -> TrainingPass:
    workload = replace(a_training(), activation_checkpointing=checkpointing, **trained)
    return build_training_pass(model, workload, _make_layout(ranks))
