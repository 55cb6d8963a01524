"""One point's run on the GPU.

There are cold rounds, timed rounds, and one whose peaks are recorded. Out of memory is a result.
"""

import gc
from dataclasses import dataclass, field, replace

from service.estimator.values.workload import ServeWorkload, TrainWorkload
from service.probing.plan import NUM_ROUNDS, Point
from worker.probes.attention.cuda_dispatch import make_device_context
from worker.probes.cuda.driver import AllocatorBytes, Driver
from worker.probes.cuda.watch import MarkWatch, StretchCounts
from worker.probes.ranks.group import fake_ranks
from worker.probes.run.backend import OnStep, ProbeSetup
from worker.probes.run.recorder import listen_to_marks
from worker.probes.run.serving import make_server, serve
from worker.probes.run.training import STEP_MARK, make_trainer, train

SERVE_MARK = "prefill"
_AFTER_PREFILL = frozenset({"growing", "decode", "done"})
"""Marks that end a prefill: a short run has not all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory:
    """The state when memory ran out in ``stretch``.

    ``counts`` are the allocator's, ``message`` is CUDA's own.
    """

    stretch: str
    counts: AllocatorBytes
    free_bytes: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The measurements of one run on a GPU.

    Stretches, the GPU's seconds of steady steps, the kernel that attention took, bytes of
    workspaces.
    """

    closed: tuple[StretchCounts, ...]
    seconds: tuple[float, ...]
    prefill_seconds: tuple[float, ...]
    chosen: tuple[str, ...]
    highest: AllocatorBytes
    workspace_bytes: int = 0
    out_of_memory: OutOfMemory | None = None


@dataclass(slots=True, kw_only=True)
class Run:
    """One point on one GPU.

    ``on_instant`` is called with every instant that the run comes to.
    """

    driver: Driver
    setup: ProbeSetup
    point: Point
    on_step: OnStep
    on_instant: OnStep
    _chosen: list[str] = field(default_factory=list)

    def execute(self) -> RunOutcome:
        """Run the point; the allocator keeps what it reserved.

        Raises Refusal, and whatever CUDA raises but out of memory.
        """
        self.clear()
        watch = MarkWatch(
            driver=self.driver, begins_round=self._begins_round, on_instant=self.on_instant
        )
        out_of_memory = None
        try:
            with fake_ranks(self.setup.layout, self.setup.rank), listen_to_marks(watch.on_mark):
                self._run_rounds()
                watch.end()
        except RuntimeError as error:
            out_of_memory = self._read_out_of_memory(error, watch)
        gc.collect()
        self.driver.finish()
        return self._build_outcome(watch, out_of_memory)

    def clear(self) -> None:
        """Release all memory and set the workload's allocator."""
        self.driver.drop_workspaces()
        self.driver.release()
        self.driver.set_allocator(self.setup.workload.allocator)
        self.driver.forget_peaks()

    def _forget_building(self) -> None:
        """Release what building a model left on the GPU: loading leaves none."""
        gc.collect()
        self.driver.release()

    def _begins_round(self, mark: str) -> bool:
        return (
            mark == SERVE_MARK
            if isinstance(self.setup.workload, ServeWorkload)
            else mark.startswith(STEP_MARK)
        )

    def _run_rounds(self) -> None:
        workload = self.setup.workload
        self.on_step("building the model")
        if isinstance(workload, ServeWorkload):
            self._serve(workload)
        else:
            self._train(workload)

    def _train(self, workload: TrainWorkload) -> None:
        setup, point = self.setup, self.point
        trainer = make_trainer(
            setup.config,
            workload,
            layers=point.layers,
            kernel=setup.kernel,
            kernel_context=make_device_context(workload.attention, self._chosen),
            device=self.driver.device,
        )
        self._forget_building()
        train(
            trainer,
            micro_batch_size=point.micro_batch_size,
            sequence_length=point.sequence_length,
            num_steps=NUM_ROUNDS,
            on_step=self.on_step,
        )

    def _serve(self, workload: ServeWorkload) -> None:
        setup, point = self.setup, self.point
        server = make_server(
            setup.config,
            workload,
            layers=point.layers,
            kernel=setup.kernel,
            kernel_context=make_device_context(workload.attention, self._chosen),
            device=self.driver.device,
        )
        self._forget_building()
        for number in range(NUM_ROUNDS):
            serve(
                server,
                num_sequences=point.micro_batch_size,
                prompt_tokens=point.sequence_length,
                output_tokens=point.output_tokens,
                on_step=self.on_step if number == 0 else _ignore_step,
            )

    def _read_out_of_memory(self, error: RuntimeError, watch: MarkWatch) -> OutOfMemory:
        if not self.driver.is_out_of_memory(error):
            raise error
        return OutOfMemory(
            stretch=watch.name,
            counts=self.driver.counts(),
            free_bytes=self.driver.free_bytes(),
            message=str(error).partition("\n")[0],
        )

    def _build_outcome(self, watch: MarkWatch, out_of_memory: OutOfMemory | None) -> RunOutcome:
        counts = self.driver.counts() if out_of_memory is None else out_of_memory.counts
        trains = isinstance(self.setup.workload, TrainWorkload)
        return RunOutcome(
            closed=tuple(watch.closed),
            seconds=watch.seconds(STEP_MARK if trains else "decode", {"done"}),
            prefill_seconds=() if trains else watch.seconds(SERVE_MARK, _AFTER_PREFILL),
            chosen=tuple(self._chosen),
            highest=counts if watch.highest is None else watch.highest | counts,
            workspace_bytes=0 if out_of_memory is not None else self._workspace_bytes(),
            out_of_memory=out_of_memory,
        )

    def _workspace_bytes(self) -> int:
        with_workspaces = self.driver.counts().requested
        self.driver.drop_workspaces()
        return with_workspaces - self.driver.counts().requested


def drop_times(outcome: RunOutcome) -> RunOutcome:
    """Return the outcome without its seconds.

    While every allocation is recorded they are not those of a step.
    """
    return replace(outcome, seconds=(), prefill_seconds=())


def _ignore_step(_step: str) -> None:
    """Ignore the step.

    All rounds of a point are one step of its plan.
    """
