"""What a plan is told of this host's speed, and the operators that it counts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Checkpointing, TrainWorkload
from service.jobs.host import Host
from service.probing.duration import estimate_point_seconds
from service.probing.plan import Point, ProbeQuestion, get_target_point
from tests.tiny_models import tiny_config
from tests.traces.store import POINTS
from worker.probes.measure import make_probe_setup
from worker.probes.run.backend import ProbeSetup
from worker.probes.trace.backend import TraceBackend
from worker.probes.trace.recorder import StorageRecorder
from worker.probes.trace.speed import measure_operators_per_second

CONFIG = tiny_config("llama") | {"num_hidden_layers": 5}
TRAIN = TrainWorkload(sequence_length=32, precision=POLICIES["bf16"])
SHARDED = Layout(data_parallel=512, zero_stage=3, sharding=Sharding.FSDP2)


def question(
    workload: TrainWorkload, layout: Layout, config: Mapping[str, object] = CONFIG
) -> ProbeQuestion:
    """Return a question about a small model."""
    architecture = architecture_from_config(config)
    return ProbeQuestion(
        architecture=architecture,
        workload=workload,
        layout=layout,
        full_depth=False,
        deadline_s=600.0,
    )


def counted(
    asked: ProbeQuestion,
    monkeypatch: pytest.MonkeyPatch,
    num_layers: int,
    config: Mapping[str, object] = CONFIG,
) -> int:
    """Return the operators that come by the recorder while so many layers are traced."""
    setup = make_probe_setup(asked, config, 0)
    point = replace(get_target_point(asked), layers=tuple(range(num_layers)))
    question = "operators", setup, point
    return int(POINTS.resolve(question, lambda: str(count(setup, point, monkeypatch))))


def count(setup: ProbeSetup, point: Point, monkeypatch: pytest.MonkeyPatch) -> int:
    """Trace a point and return the operators that come by the recorder."""
    seen = 0
    dispatch = StorageRecorder.__torch_dispatch__

    def counting(
        recorder: TorchDispatchMode,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        nonlocal seen
        seen += 1
        return dispatch(recorder, func, types, args, kwargs)  # type: ignore[arg-type]  # it is the recorder

    with monkeypatch.context() as patched:
        patched.setattr(StorageRecorder, "__torch_dispatch__", counting)
        TraceBackend().run(setup, point, on_step=lambda _step: None)
    return seen


@pytest.mark.parametrize(
    ("workload", "layout"),
    [
        pytest.param(TRAIN, Layout(), id="plain"),
        pytest.param(
            replace(TRAIN, activation_checkpointing=Checkpointing.FULL), Layout(), id="checkpointed"
        ),
        pytest.param(TRAIN, SHARDED, id="512 ranks"),
    ],
)
def test_the_operators_of_a_layer_are_those_that_a_plan_counts(
    workload: TrainWorkload, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At one operator a second the promise for three layers more is their operators, to a fifth."""
    asked, slow = question(workload, layout), Host(operators_per_second=1.0)
    few, many = (replace(get_target_point(asked), layers=tuple(range(count))) for count in (2, 5))

    seen = counted(asked, monkeypatch, 5) - counted(asked, monkeypatch, 2)

    assert estimate_point_seconds(many, asked, slow) - estimate_point_seconds(
        few, asked, slow
    ) == pytest.approx(seen, rel=0.2)


@pytest.mark.parametrize(
    ("family", "lengths"), [("mamba", (4, 8)), ("jamba", (4, 8)), ("qwen3_next", (64, 128))]
)
def test_what_runs_token_by_token_takes_longer_for_more_of_them(
    family: str, lengths: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At one operator a second the promise for more tokens is what the loops over them run, to a
    fifth.
    """
    config = tiny_config(family)
    short, long = (
        question(replace(TRAIN, sequence_length=tokens), Layout(), config) for tokens in lengths
    )
    depth, slow = len(get_target_point(short).layers), Host(operators_per_second=1.0)

    seen = counted(long, monkeypatch, depth, config) - counted(short, monkeypatch, depth, config)

    promised = estimate_point_seconds(get_target_point(long), long, slow) - estimate_point_seconds(
        get_target_point(short), short, slow
    )
    assert promised == pytest.approx(seen, rel=0.2)


def test_speed_is_measured_once_and_leaves_nothing() -> None:
    """A process asks itself once how many operators it traces, and computes on as before."""
    first = measure_operators_per_second()

    assert measure_operators_per_second() == first > 0
    assert torch.ones(2).sum().item() == 2
