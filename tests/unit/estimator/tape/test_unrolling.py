"""Logs of long repeats, of which the blocks at both ends are recorded and the others written
out.
"""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.memory.training_pass import build_training_pass
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.recording import Recording
from service.estimator.passes.recorder import log_training
from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events, LoggingTape
from service.estimator.tape.graph import Mode
from service.estimator.tape.ledger import Section
from service.estimator.tape.loops import RECORDED, Loop
from service.estimator.tape.nodes import Value
from service.estimator.tape.unrolling import unroll_repeats
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Checkpointing, Lora, Method
from tests.builders import a_model, a_training

_FULL = {"activation_checkpointing": Checkpointing.FULL}
_LORA = {"method": Method.LORA, "lora": Lora(rank=4)}
_AUTOCAST = {"precision": POLICIES["bf16_autocast"]}
_FSDP = Layout(data_parallel=8, zero_stage=3, sharding=Sharding.FSDP2)


def _events(order: tuple[int, ...]) -> Events:
    count = sum(event >= 0 for event in order)
    return Events(
        sizes=(sizes.constant(8),),
        kinds=(0,) * count,
        order=order,
        gradients=frozenset(),
        shards=(),
    )


@pytest.mark.parametrize(
    ("name", "words", "layout"),
    [
        ("llama-3.2-1b", {}, Layout()),
        ("llama-3.2-1b", _FULL, Layout()),
        ("llama-3.2-1b", {"gradient_accumulation_steps": 4}, _FSDP),
        ("llama-3.2-1b", {"precision": POLICIES["amp_bf16"]}, Layout()),
        ("qwen2-0.5b", {"precision": POLICIES["amp_bf16"]}, Layout()),
        ("mistral-7b-v0.1", _LORA | _FULL, _FSDP),
        ("gemma-2-2b", {}, Layout()),
        ("gemma-3-1b", _FULL, _FSDP),
        ("gemma-3-1b", _LORA | _AUTOCAST, Layout()),
        ("gemma-3-1b", _LORA | _AUTOCAST | _FULL, Layout()),
        ("gemma-3-1b", _LORA | _AUTOCAST | _FULL, _FSDP),
        ("mistral-7b-v0.1", _LORA | _AUTOCAST, Layout()),
        ("jamba-v0.1", _LORA | _AUTOCAST, Layout()),
        ("jamba-v0.1", {}, Layout()),
        ("t5-base", {}, _FSDP),
        ("whisper-large-v3", _FULL, Layout()),
        ("bert-base", _LORA, Layout()),
        ("mamba-130m", {}, Layout()),
    ],
)
def test_a_log_is_that_of_every_block(
    monkeypatch: pytest.MonkeyPatch, name: str, words: dict[str, Any], layout: Layout
) -> None:
    """Storage by storage and event by event, as if no block had been left out."""
    model = load_architecture(resolve_model(name))
    how = build_training_pass(model, replace(a_training(sequence_length=128), **words), layout)

    short = log_training(model, how)
    monkeypatch.setattr("service.estimator.tape.event_log.RECORDED", model.num_hidden_layers)

    assert short == log_training(model, how)


def _num_recorded(depth: int, monkeypatch: pytest.MonkeyPatch) -> int:
    model, calls = a_model(num_hidden_layers=depth), list[str]()
    kind = type(model.blocks[0][0])
    record = kind.record

    def counted(block: Block, run: Recording, x: Value, scope: str) -> Value:
        calls.append(scope)
        return record(block, run, x, scope)

    with monkeypatch.context() as patch:
        patch.setattr(kind, "record", counted)
        log_training(model, build_training_pass(model, a_training(), Layout()))
    return len(calls)


def test_the_blocks_in_the_middle_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred layers take as many recorded blocks as ten do."""
    assert _num_recorded(100, monkeypatch) == _num_recorded(10, monkeypatch) < 10


def test_a_tape_writes_everything_down_unless_it_is_asked_to_shorten() -> None:
    """Short repeats are no loops either."""
    for shortens, count, num_loops in (
        (False, RECORDED + 1, 0),
        (True, RECORDED, 0),
        (True, RECORDED + 1, 1),
    ):
        tape = LoggingTape(Section.FORWARD, Mode.RECORDING, shorten_repeats=shortens)
        tape.repeat(count, lambda x: x, Value(None, sizes.ZERO, DType.BF16))

        assert len(tape.loops) == num_loops


def test_blocks_that_free_what_the_one_before_made_are_copied() -> None:
    """Each block of forward allocates a storage, and its backward frees it."""
    loop = Loop(count=6, forward=[0, 1, 2, 3, 4], backward=[4, 5, 6, 7, 8])

    written = unroll_repeats(_events((0, 1, 2, 3, ~3, ~2, ~1, ~0)), [loop])

    assert written is not None
    assert written.order == (0, 1, 2, 3, 4, 5, ~5, ~4, ~3, ~2, ~1, ~0)


@pytest.mark.parametrize(
    ("freed", "written"),
    [
        ((~0, ~1, ~2, ~3), (~0, ~1, ~2, ~3, ~4, ~5)),
        ((~3, ~2, ~1, ~0), (~5, ~4, ~3, ~2, ~1, ~0)),
        ((~0, ~2, ~1, ~3), None),
        ((~1, ~2), None),
    ],
    ids=["as they ran", "the last one first", "in no order", "of two blocks alone"],
)
def test_what_ends_all_blocks_between_loops_is_copied(
    freed: tuple[int, ...], written: tuple[int, ...] | None
) -> None:
    """Autocast's copies of weights end so; each block's has its turn."""
    places = [4 + len(freed)] * 5
    loop = Loop(count=6, forward=[0, 1, 2, 3, 4], backward=places)

    log = unroll_repeats(_events((0, 1, 2, 3, *freed)), [loop])

    assert (log and log.order) == (written and (0, 1, 2, 3, 4, 5, *written))


@pytest.mark.parametrize(
    ("order", "forward", "backward"),
    [
        ((0, 1, ~1, 2, 3, ~3, ~2, ~0), [0, 1, 3, 4, 5], [5, 6, 7, 7, 8]),
        ((0, 1, 2, 3, ~0, ~1, ~2, ~3), [0, 1, 2, 3, 4], [4, 5, 6, 7, 8]),
        ((0, 1, 2, 3, ~3, ~2, ~1, ~0), [0, 1, 2, 3, 4], [4, 5, 5, 5, 6]),
        ((0, 1, 2, 3), [0, 1, 2, 3, 4], []),
    ],
    ids=[
        "middle blocks that differ",
        "a block further away",
        "storages that outlive the loop",
        "no backward",
    ],
)
def test_irregular_blocks_are_not_written_out(
    order: tuple[int, ...], forward: list[int], backward: list[int]
) -> None:
    """The caller records every block instead."""
    assert (
        unroll_repeats(_events(order), [Loop(count=9, forward=forward, backward=backward)]) is None
    )


def test_places_follow_an_event_that_is_struck_out() -> None:
    """What stands behind it moves up by one."""
    loop = Loop(count=9, forward=[0, 2, 4], backward=[4, 7])

    loop.drop_event(2)

    assert (loop.forward, loop.backward) == ([0, 2, 3], [3, 6])
