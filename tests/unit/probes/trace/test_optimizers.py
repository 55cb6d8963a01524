"""The real optimizers on fake tensors hold what the estimate counts, byte for byte."""

import sys

import pytest

from service.estimator.memory.timeline import build_train_timeline
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.layout import Layout
from service.estimator.values.optimizers import OptimizerName
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Attention, TrainWorkload
from service.probing.plan import Point
from service.probing.refusal import Refusal
from worker.probes.attention.names import Kernel
from worker.probes.run.backend import ProbeSetup
from worker.probes.run.session import compute_highest, select_steady_stretches
from worker.probes.trace.ledger import compute_stretches
from worker.probes.trace.run import run_traced

CONFIG = {
    "model_type": "llama",
    "vocab_size": 5000,
    "hidden_size": 192,
    "intermediate_size": 320,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def _ask(optimizer: str, policy: str = "bf16") -> TrainWorkload:
    return TrainWorkload(
        sequence_length=16,
        precision=POLICIES[policy],
        optimizer=optimizer,
        attention=Attention.MATH,
    )


def _trace_step(workload: TrainWorkload) -> int:
    """Return the highest bytes of the optimizer's step."""
    setup = ProbeSetup(config=CONFIG, workload=workload, kernel=Kernel.MATH)
    point = Point(layers=(0, 1, 2), micro_batch_size=1, sequence_length=16, output_tokens=0)
    ledger = run_traced(setup, point, on_step=lambda _step: None).ledger
    stretches = select_steady_stretches(compute_stretches(ledger, ledger.live()))
    return compute_highest(stretches, lambda stretch: stretch.live_peak)["optimizer_step"]


def _estimate_step(workload: TrainWorkload) -> int:
    timeline = build_train_timeline(architecture_from_config(CONFIG), workload, Layout())
    return next(peak.allocated_bytes for peak in timeline.peaks if peak.name == "optimizer_step")


@pytest.mark.parametrize("policy", ["bf16", "fp32"])
@pytest.mark.parametrize("optimizer", ["adafactor", "adagrad", "muon", "adamw_loop"])
def test_a_step_holds_what_is_counted(optimizer: str, policy: str) -> None:
    """Optimizers of torch and transformers, whatever the order of their loops."""
    workload = _ask(optimizer, policy)

    assert _trace_step(workload) == _estimate_step(workload)


@pytest.mark.parametrize("optimizer", ["adamw_8bit", "lion_8bit", "ademamix_8bit", "rmsprop_bnb"])
def test_bitsandbytes_holds_what_is_counted(optimizer: str) -> None:
    """Its own code makes the states: blocks, maps, and embeddings in 32 bits."""
    pytest.importorskip("bitsandbytes")
    workload = _ask(optimizer)

    assert _trace_step(workload) == _estimate_step(workload)


@pytest.mark.parametrize(
    ("optimizer", "module", "package"),
    [
        ("adamw_8bit", "bitsandbytes.optim", "bitsandbytes"),
        ("schedule_free_adamw", "schedulefree", "schedulefree"),
        ("galore_adamw", "galore_torch", "galore-torch"),
    ],
)
def test_a_missing_package_is_named(
    optimizer: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever runs the worker is told what to install."""
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(Refusal, match=f"pip install {package}"):
        _trace_step(_ask(optimizer))


@pytest.mark.parametrize(
    "optimizer",
    [OptimizerName.PAGED_ADAMW_8BIT, OptimizerName.STABLE_ADAMW, OptimizerName.ADAMW_4BIT],
)
def test_what_only_a_gpu_can_run_is_refused_elsewhere(optimizer: OptimizerName) -> None:
    """Managed memory, Triton and compiled steps are not those of fake tensors."""
    with pytest.raises(Refusal, match="measure it"):
        _trace_step(_ask(optimizer))
