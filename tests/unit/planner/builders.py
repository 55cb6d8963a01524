"""Small real subjects: gpt2 and llama-2-7b on GPUs of any memory."""

from dataclasses import replace

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, load_config, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.result import Basis, Component, Estimate, Interval
from service.estimator.values.workload import (
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.planner.fit.evaluator import Evaluator, make_evaluator
from service.planner.fit.fit import FitReport, assess_fit
from service.planner.remedies.find import add_remedies

ONE_GPU = Layout()
ZERO_3 = Layout(data_parallel=8, zero_stage=3, sharding=Sharding.DEEPSPEED)
SHORT = TrainWorkload(sequence_length=256)
LONG = TrainWorkload(sequence_length=4096)
ADAPTERS = TrainWorkload(sequence_length=256, method=Method.LORA, lora=Lora())
CHAT = ServeWorkload(num_sequences=16, prompt_tokens=512)


def a_device(usable_bytes: int, *, link_bytes_per_second: int | None = None) -> Device:
    """Return a GPU with the speed of an A100 and any memory."""
    a100 = resolve_gpu("A100-SXM4-80GB").to_device()
    link = link_bytes_per_second or a100.link_bytes_per_second
    return replace(
        a100,
        name="test",
        capacity_bytes=usable_bytes,
        usable_bytes=usable_bytes,
        link_bytes_per_second=link,
    )


def a_subject(
    model: str = "gpt2", *, usable_bytes: int = 80 * 2**30, plans: PlanCache | None = None
) -> Evaluator:
    """Return a catalogue model on a GPU with so much memory; ``plans`` keeps recordings, which no
    memory changes.
    """
    return make_evaluator(
        load_architecture(resolve_model(model)), a_device(usable_bytes), plans=plans
    )


def a_shallow_subject(
    num_layers: int,
    *,
    usable_bytes: int,
    model: str = "gpt2",
    depth: str = "n_layer",
    plans: PlanCache | None = None,
) -> Evaluator:
    """Return a catalogue model of so few layers: all that moves beside its depth stays, and a
    replay is that much shorter.
    """
    return make_evaluator(shallow(model, num_layers, depth), a_device(usable_bytes), plans=plans)


def shallow(model: str, num_layers: int, depth: str = "num_hidden_layers") -> Architecture:
    """Return a catalogue model cut to so many layers, which its config calls ``depth``."""
    return architecture_from_config({**load_config(resolve_model(model)), depth: num_layers})


def an_a100_subject(model: str) -> Evaluator:
    """Return a catalogue model on the A100 of the catalogue."""
    return make_evaluator(
        load_architecture(resolve_model(model)), resolve_gpu("A100-SXM4-80GB").to_device()
    )


def an_estimate(device_bytes: int, *, high: int | None = None) -> Estimate:
    """Return an estimate of which only the device bytes matter."""
    around = Interval(low=device_bytes, high=device_bytes if high is None else high)
    return Estimate(
        num_gpus=1,
        allocated_bytes=device_bytes,
        reserved_bytes=device_bytes,
        device_bytes=device_bytes,
        steady_bytes=0,
        allocated_interval=around,
        reserved_interval=around,
        device_interval=around,
        peak_instant="backward",
        components=(Component("activations", device_bytes, Basis.EXACT, "given", "test"),),
        instants=(),
        stages=(),
    )


def fit(evaluator: Evaluator, workload: Workload, layout: Layout) -> FitReport:
    """Answer a fit question with its remedies."""
    return add_remedies(assess_fit(evaluator, workload, layout), evaluator, workload, layout)
