"""Runs one point of a plan on fake tensors and writes down what it allocates."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode

from service.estimator.values.workload import ServeWorkload, TrainWorkload
from service.jobs.contract import FailureKind
from service.probing.plan import NUM_STEPS, Point
from service.probing.refusal import Refusal
from worker.probes.attention.dispatch import dropping_by_kernel
from worker.probes.attention.trace_dispatch import traced_choices
from worker.probes.models.build import TORCH_DTYPES
from worker.probes.ranks.group import fake_ranks
from worker.probes.run.backend import Subject, Tell
from worker.probes.run.recorder import listening, mark
from worker.probes.run.serving import make_server, serve
from worker.probes.run.training import Trainee, make_trainee, train
from worker.probes.trace.cuda_kernels import SCRATCH, Scratch
from worker.probes.trace.known_values import autocast_on_cuda, moved_in_place, whole_sequences
from worker.probes.trace.ledger import Ledger
from worker.probes.trace.origins import TellingLedger, following_modules
from worker.probes.trace.recorder import StorageRecorder, recording_storages
from worker.probes.trace.roles import Roles


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """One run: every allocation in order, and what each is for."""

    ledger: Ledger
    roles: Roles


def run_traced(
    subject: Subject,
    point: Point,
    *,
    tell: Tell,
    scratch: Mapping[object, Scratch] = SCRATCH,
    ledger: TellingLedger | None = None,
) -> Traced:
    """Build the model and run it, without a weight or a product; nothing of it is left afterwards.

    ``ledger`` is one that also writes down where each storage is made.
    """
    gc.collect()
    roles = Roles()
    tell("building the model")
    with (
        fake_ranks(subject.layout, subject.rank),
        dropping_by_kernel(),
        whole_sequences(),
        moved_in_place(),
        _not_collecting(),
        _refusing_values(),
        FakeTensorMode(),
        recording_storages(scratch, ledger=ledger) as recorder,
        nullcontext() if ledger is None else following_modules(ledger),
    ):
        witness = _Witness(recorder=recorder, roles=roles)
        if isinstance(subject.workload, ServeWorkload):
            _serve(witness, subject, subject.workload, point, tell)
        else:
            _train(witness, subject, subject.workload, point, tell)
        mark("end")
    return Traced(ledger=recorder.ledger, roles=roles)


@contextmanager
def _refusing_values() -> Iterator[None]:
    """Refuse a model whose code reads a tensor's value: which way it goes decides its bytes, and nothing is guessed."""
    try:
        yield
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        message = (
            f"this model's code reads values of tensors ({error.func}), and fake tensors have none: measure it on device cpu, "
            "whose tensors are real"
        )
        raise Refusal(FailureKind.UNSUPPORTED, message) from error


@contextmanager
def _not_collecting() -> Iterator[None]:
    """Keep Python's collector away: when it ran would decide when a cycle's tensors are released."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Witness:
    """What watches a run: the recorder, and the names that storages get while their tensors are at hand."""

    recorder: StorageRecorder
    roles: Roles

    def sees_model(self, model: nn.Module) -> None:
        """Name the weights, and the modules where they are asked for."""
        self.roles.weights(self.recorder, model)
        if isinstance(self.recorder.ledger, TellingLedger):
            self.recorder.ledger.name_modules(model)

    def sees_step(self, mark_name: str, trainee: Trainee) -> None:
        """Name gradients while they are there, and states once they are."""
        if mark_name in {"optimizer_step", "between"}:
            self.roles.gradients(self.recorder, trainee.subject)
            self.roles.states(self.recorder, trainee.stepper)


def _train(witness: _Witness, subject: Subject, workload: TrainWorkload, point: Point, tell: Tell) -> None:
    trainee = make_trainee(
        subject.config, workload, layers=point.layers, kernel=subject.kernel, choices=traced_choices(workload.attention)
    )
    witness.sees_model(trainee.subject)
    precision = workload.precision
    autocast = TORCH_DTYPES[precision.compute_dtype] if precision.autocast else None
    with autocast_on_cuda(autocast), listening(lambda name: witness.sees_step(name, trainee)):
        train(
            trainee,
            micro_batch_size=point.micro_batch_size,
            sequence_length=point.sequence_length,
            num_steps=NUM_STEPS,
            tell=tell,
        )


def _serve(witness: _Witness, subject: Subject, workload: ServeWorkload, point: Point, tell: Tell) -> None:
    server = make_server(
        subject.config, workload, layers=point.layers, kernel=subject.kernel, choices=traced_choices(workload.attention)
    )
    witness.sees_model(server.model)
    serve(
        server,
        num_sequences=point.micro_batch_size,
        prompt_tokens=point.sequence_length,
        output_tokens=point.output_tokens,
        tell=tell,
    )
