"""Traced run of one point of a plan on fake tensors.

It records every allocation.
"""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Self

from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from service.estimator.values.workload import ServeWorkload, TrainWorkload
from service.jobs.contract import FailureKind
from service.probing.plan import NUM_STEPS, Point
from service.probing.refusal import Refusal
from worker.probes.attention.dispatch import use_kernel_dropout
from worker.probes.attention.trace_dispatch import make_trace_context
from worker.probes.models.build import TORCH_DTYPES
from worker.probes.ranks.group import fake_ranks
from worker.probes.run.backend import OnStep, ProbeSetup
from worker.probes.run.recorder import listen_to_marks, mark
from worker.probes.run.serving import make_server, serve
from worker.probes.run.training import Trainer, make_trainer, train
from worker.probes.trace.cuda_kernels import SCRATCH, Scratch
from worker.probes.trace.known_values import (
    disable_packing_detection,
    move_in_place,
    report_cuda_autocast,
    skip_full_masks,
)
from worker.probes.trace.ledger import Ledger
from worker.probes.trace.origins import OriginLedger, track_modules
from worker.probes.trace.recorder import StorageRecorder, record_storages
from worker.probes.trace.roles import Roles


class _OneFakeMode(FakeTensorMode):  # type: ignore[no-untyped-call]  # torch leaves its metaclass hook untyped
    """Fake tensors whose deep copies stay in their mode."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the mode itself."""
        return self


def make_fake_mode() -> FakeTensorMode:
    """Return a mode of fake tensors, which copies stay in."""
    return _OneFakeMode()


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRun:
    """One traced run: every allocation in order, and its role."""

    ledger: Ledger
    roles: Roles


def run_traced(
    setup: ProbeSetup,
    point: Point,
    *,
    on_step: OnStep,
    scratch: Mapping[object, Scratch] = SCRATCH,
    ledger: OriginLedger | None = None,
) -> TracedRun:
    """Build the model and run it on fake tensors.

    There is no weight and no product; nothing of it is left afterwards. ``ledger`` is one that also
    records where each storage is made.
    """
    gc.collect()
    roles = Roles()
    on_step("building the model")
    with (
        fake_ranks(setup.layout, setup.rank),
        use_kernel_dropout(),
        disable_packing_detection(),
        skip_full_masks(),
        move_in_place(),
        _disable_gc(),
        _refuse_value_reads(),
        make_fake_mode(),
        record_storages(scratch, ledger=ledger) as recorder,
        nullcontext() if ledger is None else track_modules(ledger),
    ):
        namer = _StorageNamer(recorder=recorder, roles=roles)
        if isinstance(setup.workload, ServeWorkload):
            _serve(namer, setup, setup.workload, point, on_step)
        else:
            _train(namer, setup, setup.workload, point, on_step)
        mark("end")
    return TracedRun(ledger=recorder.ledger, roles=roles)


@contextmanager
def _refuse_value_reads() -> Iterator[None]:
    """Refuse a model whose code reads a tensor's value.

    The branch that it takes decides its bytes, and nothing is guessed.
    """
    try:
        yield
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        message = (
            f"this model's code reads values of tensors ({error.func}), and fake tensors have "
            "none: measure it on device cpu, whose tensors are real"
        )
        raise Refusal(FailureKind.UNSUPPORTED, message) from error


@contextmanager
def _disable_gc() -> Iterator[None]:
    """Disable Python's garbage collector.

    Its runs would decide when a cycle's tensors are released.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True, slots=True, kw_only=True)
class _StorageNamer:
    """Names storages while their tensors are at hand.

    ``recorder`` watches the run.
    """

    recorder: StorageRecorder
    roles: Roles

    def name_model(self, model: nn.Module) -> None:
        """Name the weights, and the modules where a ledger needs them."""
        self.roles.name_weights(self.recorder, model)
        if isinstance(self.recorder.ledger, OriginLedger):
            self.recorder.ledger.name_modules(model)

    def name_step(self, mark_name: str, trainer: Trainer) -> None:
        """Name the gradients while they exist, and the optimizer's states."""
        if mark_name in {"optimizer_step", "between"}:
            self.roles.name_gradients(self.recorder, trainer.model)
            self.roles.name_states(self.recorder, trainer.stepper)


def _train(
    namer: _StorageNamer, setup: ProbeSetup, workload: TrainWorkload, point: Point, on_step: OnStep
) -> None:
    trainer = make_trainer(
        setup.config,
        workload,
        layers=point.layers,
        kernel=setup.kernel,
        kernel_context=make_trace_context(workload.attention),
    )
    namer.name_model(trainer.model)
    precision = workload.precision
    autocast = TORCH_DTYPES[precision.compute_dtype] if precision.autocast else None
    with (
        report_cuda_autocast(autocast),
        listen_to_marks(lambda name: namer.name_step(name, trainer)),
    ):
        train(
            trainer,
            micro_batch_size=point.micro_batch_size,
            sequence_length=point.sequence_length,
            num_steps=NUM_STEPS,
            on_step=on_step,
        )


def _serve(
    namer: _StorageNamer, setup: ProbeSetup, workload: ServeWorkload, point: Point, on_step: OnStep
) -> None:
    server = make_server(
        setup.config,
        workload,
        layers=point.layers,
        kernel=setup.kernel,
        kernel_context=make_trace_context(workload.attention),
    )
    namer.name_model(server.model)
    serve(
        server,
        num_sequences=point.micro_batch_size,
        prompt_tokens=point.sequence_length,
        output_tokens=point.output_tokens,
        on_step=on_step,
    )
