"""Runs one point on the GPU: cold rounds, timed rounds, and one that is looked at closely; out of memory is an answer."""

import gc
from dataclasses import dataclass, field, replace

from service.estimator.values.workload import ServeWorkload, TrainWorkload
from service.probing.plan import NUM_ROUNDS, Point
from worker.probes.attention.cuda_dispatch import own_choices
from worker.probes.cuda.driver import AllocatorBytes, Driver
from worker.probes.cuda.watch import Closed, Watch
from worker.probes.ranks.group import fake_ranks
from worker.probes.run.backend import Subject, Tell
from worker.probes.run.recorder import listening
from worker.probes.run.serving import make_server, serve
from worker.probes.run.training import STEP_MARK, make_trainee, train

SERVE_MARK = "prefill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted:
    """Memory ran out in the stretch ``where``; ``counts`` are the allocator's, ``words`` CUDA's own."""

    where: str
    counts: AllocatorBytes
    free_bytes: int
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run left: stretches, the GPU's seconds of steady steps, the kernel that attention took, bytes of workspaces."""

    closed: tuple[Closed, ...]
    seconds: tuple[float, ...]
    prefill_seconds: tuple[float, ...]
    chosen: tuple[str, ...]
    highest: AllocatorBytes
    workspace_bytes: int = 0
    exhausted: Exhausted | None = None


@dataclass(slots=True, kw_only=True)
class Run:
    """One point on one GPU; ``enter`` is told of every instant that it comes to."""

    driver: Driver
    subject: Subject
    point: Point
    tell: Tell
    enter: Tell
    _chosen: list[str] = field(default_factory=list)

    def outcome(self) -> Outcome:
        """Run the point; the allocator keeps what it reserved. Raises Refusal, and whatever CUDA raises but out of memory."""
        self.clear()
        watch = Watch(driver=self.driver, begins_round=self._begins_round, enter=self.enter)
        exhausted = None
        try:
            with fake_ranks(self.subject.layout, self.subject.rank), listening(watch.on_mark):
                self._run_rounds()
                watch.end()
        except RuntimeError as error:
            exhausted = self._exhausted(error, watch)
        gc.collect()
        self.driver.finish()
        return self._told(watch, exhausted)

    def clear(self) -> None:
        """Give everything back, and have the allocator begin anew in the way that the workload asks for."""
        self.driver.drop_workspaces()
        self.driver.release()
        self.driver.set_allocator(self.subject.workload.allocator)
        self.driver.forget_peaks()

    def _begins_round(self, mark: str) -> bool:
        return mark == SERVE_MARK if isinstance(self.subject.workload, ServeWorkload) else mark.startswith(STEP_MARK)

    def _run_rounds(self) -> None:
        workload = self.subject.workload
        self.tell("building the model")
        if isinstance(workload, ServeWorkload):
            self._serve(workload)
        else:
            self._train(workload)

    def _train(self, workload: TrainWorkload) -> None:
        subject, point = self.subject, self.point
        trainee = make_trainee(
            subject.config,
            workload,
            layers=point.layers,
            kernel=subject.kernel,
            choices=own_choices(workload.attention, self._chosen),
            device=self.driver.device,
        )
        train(
            trainee,
            micro_batch_size=point.micro_batch_size,
            sequence_length=point.sequence_length,
            num_steps=NUM_ROUNDS,
            tell=self.tell,
        )

    def _serve(self, workload: ServeWorkload) -> None:
        subject, point = self.subject, self.point
        server = make_server(
            subject.config,
            workload,
            layers=point.layers,
            kernel=subject.kernel,
            choices=own_choices(workload.attention, self._chosen),
            device=self.driver.device,
        )
        for number in range(NUM_ROUNDS):
            serve(
                server,
                num_sequences=point.micro_batch_size,
                prompt_tokens=point.sequence_length,
                output_tokens=point.output_tokens,
                tell=self.tell if number == 0 else _silent,
            )

    def _exhausted(self, error: RuntimeError, watch: Watch) -> Exhausted:
        if not self.driver.is_out_of_memory(error):
            raise error
        return Exhausted(
            where=watch.name,
            counts=self.driver.counts(),
            free_bytes=self.driver.free_bytes(),
            words=str(error).partition("\n")[0],
        )

    def _told(self, watch: Watch, exhausted: Exhausted | None) -> Outcome:
        counts = self.driver.counts() if exhausted is None else exhausted.counts
        trains = isinstance(self.subject.workload, TrainWorkload)
        prefilled = "growing" if self.point.output_tokens else "done"
        return Outcome(
            closed=tuple(watch.closed),
            seconds=watch.seconds(STEP_MARK if trains else "decode", "done"),
            prefill_seconds=() if trains else watch.seconds(SERVE_MARK, prefilled),
            chosen=tuple(self._chosen),
            highest=counts if watch.highest is None else watch.highest | counts,
            workspace_bytes=0 if exhausted is not None else self._workspace_bytes(),
            exhausted=exhausted,
        )

    def _workspace_bytes(self) -> int:
        with_workspaces = self.driver.counts().requested
        self.driver.drop_workspaces()
        return with_workspaces - self.driver.counts().requested


def untimed(outcome: Outcome) -> Outcome:
    """Return what a run left but its seconds: with somebody writing down every allocation they are not those of a step."""
    return replace(outcome, seconds=(), prefill_seconds=())


def _silent(_step: str) -> None:
    """Tell nothing: the rounds of one point are one step of its plan."""
