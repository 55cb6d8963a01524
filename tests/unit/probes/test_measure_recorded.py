"""Measurements of types without a module: a probe records them, and then runs them."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.recorded.architecture import build_recorded
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import (
    Engine,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
)
from service.jobs.contract import FailureKind, ModelSource, ProbeDevice, ProbeRequest, make_task
from service.probing.refusal import Refusal
from tests.recordings import HELIUM
from tests.traces.recording import record_kept
from worker.probes import recording
from worker.probes.measure import measure

pytestmark = pytest.mark.filterwarnings(
    "ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"
)  # PEFT still asks for it
CONFIG = HELIUM | {"num_hidden_layers": 3}
HOST = Device(name="host", capacity_bytes=2**60, usable_bytes=2**60)
STEP = TrainWorkload(sequence_length=48, micro_batch_size=2, precision=POLICIES["bf16"])
ADAPTED = TrainWorkload(
    sequence_length=48,
    micro_batch_size=2,
    precision=POLICIES["bf16"],
    method=Method.LORA,
    lora=Lora(rank=4),
)


@pytest.fixture(autouse=True)
def _kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have recordings made once."""

    def record(config: Mapping[str, Any], variants: Mapping[str, object]) -> object:
        return record_kept(config, *variants)

    monkeypatch.setattr(recording, "record_model", record)


def ask(workload: TrainWorkload | ServeWorkload) -> ProbeRequest:
    """Return the request of a traced measurement."""
    return ProbeRequest(
        model=ModelSource(architecture={}, hf_config=CONFIG),
        task=make_task(workload),
        layout=Layout(),
        device=ProbeDevice.TRACE,
        deadline_s=600.0,
    )


@pytest.mark.parametrize(
    ("workload", "variant"), [(STEP, "half"), (ADAPTED, "half/frozen")], ids=["full", "adapters"]
)
def test_a_recorded_type_is_run_as_its_recording_says(
    workload: TrainWorkload, variant: str
) -> None:
    """All of its layers run, and every instant is met but for the gradient of the loss."""
    result = measure(ask(workload), lambda _line: None)

    model = build_recorded(record_kept(CONFIG, variant))
    answer = estimate(model, workload, layout=Layout(), device=HOST)
    expected = {instant.name: instant.allocated_bytes for instant in answer.instants}
    found = {instant.name: instant.allocated_bytes for instant in result.instants}
    assert found.keys() == expected.keys()
    assert all(0 <= found[name] - expected[name] <= 4 for name in expected)


def test_serving_a_recorded_type_is_not_run() -> None:
    """Passes with a cache are the estimator's own."""
    workload = ServeWorkload(num_sequences=1, prompt_tokens=8, engine=Engine.TRANSFORMERS)

    with pytest.raises(Refusal, match="serves none of them"):
        measure(ask(workload), lambda _line: None)


@pytest.mark.parametrize(
    ("policy", "name"), [("bf16", "half"), ("fp32", "fp32"), ("amp_bf16", "autocast")]
)
def test_a_step_is_recorded_in_its_own_formats(
    policy: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One variant of the many that a recording has."""
    asked: list[str] = []

    def refuse(_config: object, variants: Mapping[str, object]) -> None:
        asked.extend(variants)
        raise Refusal(FailureKind.UNSUPPORTED, "asked")

    monkeypatch.setattr(recording, "record_model", refuse)
    workload = TrainWorkload(sequence_length=48, precision=POLICIES[policy])

    with pytest.raises(Refusal, match="asked"):
        recording.read_or_record(workload)(CONFIG)

    assert asked == [name]
