"""Jobs of many kinds, replayed as the estimator does it and request by request."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest

from service.estimator.memory.allocator import replay as replays
from service.estimator.memory.allocator.pressure import DeviceFullError
from service.estimator.memory.allocator.replay import JobTensors
from service.estimator.memory.allocator.replay_allocators import (
    ReplayAllocator,
    make_replay_allocator,
)
from service.estimator.memory.allocator.tensors import list_training_tensors
from service.estimator.memory.optimizers.events import StepEvents
from service.estimator.memory.timeline import build_train_timeline
from service.estimator.memory.training_pass import build_training_pass
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.passes.recorder import log_training
from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events
from service.estimator.tape.sizes import Size
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import (
    Allocator,
    Checkpointing,
    Lora,
    Method,
    TrainWorkload,
)
from tests.unit.estimator.memory.allocator import reference_allocator
from tests.unit.estimator.memory.allocator.allocator_forms import FORMS, name_form

_BLOCK = reference_allocator.BLOCK_BYTES
_CONFIG = {
    "vocab_size": 32000,
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 5,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
}
_MODELS: dict[str, dict[str, object]] = {
    "llama": {},
    "qwen3": {"head_dim": 128},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
}
_FSDP = Layout(data_parallel=8, zero_stage=3, sharding=Sharding.FSDP2)
_LAYOUTS = (Layout(), Layout(data_parallel=2), _FSDP)
_NUM_QUESTIONS = 40

Job = tuple[Allocator, JobTensors, list[Events], Size]


@cache
def _load_model(name: str) -> Architecture:
    return architecture_from_config(_CONFIG | {"model_type": name} | _MODELS[name])


def _draw_question(random: Random) -> tuple[Architecture, TrainWorkload, Layout]:
    method = random.choice([Method.FULL, Method.LORA, Method.QLORA])
    workload = TrainWorkload(
        sequence_length=random.choice([1, 77, 512, 1024, 2048, 4096]),
        micro_batch_size=random.choice([1, 2, 3, 8, 31]),
        gradient_accumulation_steps=random.choice([1, 4]),
        precision=POLICIES["bf16"],
        method=method,
        lora=None if method is Method.FULL else Lora(rank=random.choice([4, 64])),
        activation_checkpointing=random.choice([Checkpointing.NONE, Checkpointing.FULL]),
        allocator=random.choice(list(Allocator)),
    )
    layout = random.choice(_LAYOUTS) if method is Method.FULL else Layout()
    return _load_model(random.choice(list(_MODELS))), workload, layout


def _replay_plainly(
    kind: Allocator, tensors: JobTensors, passes: list[Events], values: Size
) -> tuple[int, int]:
    """Return what a replay returns, of the plainest allocator and with nothing left out."""
    allocator = reference_allocator.make_allocator(kind)

    def allocate(group: tuple[int, ...]) -> list[reference_allocator.Block]:
        return [allocator.allocate(-(-size // _BLOCK)) for size in group if size]

    def free(blocks: list[reference_allocator.Block]) -> None:
        for block in blocks:
            allocator.free(block)

    loaded = allocate(tensors.loaded)
    for step in range(2):
        gradients: list[reference_allocator.Block] = []
        for events in passes:
            if step and events is passes[-1] and tensors.rebuilt:
                free(loaded[-1:])
                allocate(tensors.rebuilt)
            buffers = allocate(tensors.backward)
            live = _run_plainly(allocator, events, tensors, values)
            gradients += [live.pop(index) for index in tuple(live) if index in events.gradients]
            free([*live.values(), *buffers])
        main = allocate(tensors.main_gradients)
        for update in tensors.updates:
            if step == 0:
                allocate(update.states)
            _run_step_plainly(allocator, update.step)
        free([*main, *gradients])
    return allocator.reserved * _BLOCK, allocator.highest * _BLOCK


def _run_step_plainly(allocator: reference_allocator.CachingAllocator, step: StepEvents) -> None:
    live: dict[int, reference_allocator.Block] = {}
    for event in step.order:
        if event >= 0:
            live[event] = allocator.allocate(-(-step.sizes[event] // _BLOCK))
        else:
            allocator.free(live.pop(~event))


def _run_plainly(
    allocator: reference_allocator.CachingAllocator,
    events: Events,
    tensors: JobTensors,
    values: Size,
) -> dict[int, reference_allocator.Block]:
    num_bytes = [sizes.evaluate(events.sizes[kind], values) for kind in events.kinds]
    for index, elements in events.shards:
        num_bytes[index] = elements * tensors.gradient_bytes
    sharded = {index for index, _ in events.shards}
    streams = events.streams or (0,) * len(events.sizes)
    live: dict[int, reference_allocator.Block] = {}
    for event in events.order:
        if event >= 0:
            pieces = _BLOCK * (tensors.gradient_shards if event in sharded else 1)
            if size := -(-num_bytes[event] // pieces):
                live[event] = allocator.allocate(size, streams[events.kinds[event]])
        elif ~event in live:
            allocator.free(live.pop(~event))
    return live


@cache
def _draw_jobs() -> list[tuple[Job, tuple[int, int]]]:
    """Return jobs and what comes of them, worked out once for all forms."""
    random = Random(12)  # noqa: S311 - a seeded test, no secret
    logs: dict[object, Events] = {}
    jobs = []
    for _ in range(_NUM_QUESTIONS):
        model, workload, layout = _draw_question(random)
        timeline = build_train_timeline(model, workload, layout)
        last = build_training_pass(model, workload, layout)
        passes = [replace(last, accumulating=False)] * last.accumulating + [last]
        for each in passes:
            if (model.spec, each) not in logs:
                logs[model.spec, each] = log_training(model, each)
        tensors = list_training_tensors(
            model,
            workload,
            layout,
            timeline.trained,
            timeline.states,
            timeline.static_memory.buckets,
        )
        values = sizes.evaluate_monomials(workload.micro_batch_size, workload.sequence_length)
        events = [logs[model.spec, each] for each in passes]
        job = (workload.allocator, tensors, events, values)
        jobs.append((job, _replay_plainly(*job)))
    return jobs


@pytest.mark.parametrize(
    "make",
    [make_replay_allocator, *(form.make_allocator for form in FORMS)],
    ids=["chosen", *map(name_form, FORMS)],
)
def test_a_job_is_replayed_as_request_by_request(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[Allocator], ReplayAllocator[Any]]
) -> None:
    """Reserved bytes and the highest sum of blocks, to the byte, of random jobs of every method."""
    monkeypatch.setattr(replays, "make_replay_allocator", lambda kind, **_: make(kind))

    for job, expected in _draw_jobs():
        peaks = replays.replay(*job)
        assert (peaks.reserved_bytes, peaks.allocated_bytes) == expected


def test_no_job_runs_in_less_than_it_asks_for_at_once() -> None:
    """So none is replayed there, and none runs otherwise in all that it reserved."""
    for job, _ in _draw_jobs():
        peaks = replays.replay(*job)

        limited = replays.replay(*job, room_bytes=peaks.reserved_bytes)

        assert limited == peaks
        with pytest.raises(DeviceFullError):
            replays.replay(*job, room_bytes=peaks.requested_bytes - _BLOCK)
