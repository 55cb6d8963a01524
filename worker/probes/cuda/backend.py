"""Device ``cuda``: the real thing, on the first GPU that CUDA shows this process."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Allocator
from service.jobs.contract import FailureKind, ProbeDevice
from service.jobs.host import Host
from service.probing.plan import NUM_ROUNDS, Point
from service.probing.refusal import Refusal
from worker.nvml.library import Api
from worker.nvml.sampler import sampling
from worker.probes.cuda.baseline import Ground, NoGround, sampler_on, start_on_ground
from worker.probes.cuda.driver import Driver, TorchDriver
from worker.probes.cuda.interpret import Heard, session_of
from worker.probes.cuda.run import Outcome, Run, untimed
from worker.probes.cuda.speed import Ruler, copied_bytes_per_second, matrix_flops
from worker.probes.run.backend import Keep, Session, Subject, Tell


@dataclass(slots=True, kw_only=True)
class CudaBackend:
    """Runs points on one GPU; CUDA starts with the first question."""

    device: ProbeDevice = ProbeDevice.CUDA
    driver: Driver = field(default_factory=TorchDriver)
    nvml: Api = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    ruler: Ruler = field(default_factory=Ruler)
    _ground: Ground | NoGround | None = None
    _allocator: Allocator = Allocator.DEFAULT
    _kernel: str | None = None

    def host(self, dtype: DType) -> Host:
        """Return the GPU's free memory and its speed in ``dtype``; raises Refusal where CUDA does not start."""
        self.start()
        driver = self.driver
        flops_per_second = matrix_flops(driver, dtype, self.ruler)
        bytes_per_second = copied_bytes_per_second(driver, self.ruler)
        driver.drop_workspaces()
        driver.release()
        return Host(
            available_bytes=driver.free_bytes(),
            flops_per_second=flops_per_second,
            state_bytes_per_second=bytes_per_second,
            reserves=True,
            num_steps=NUM_ROUNDS,
        )

    def run(self, subject: Subject, point: Point, *, tell: Tell, keep: Keep | None = None) -> Session:
        """Build, run and measure one point; nothing of it is left afterwards but what ``keep`` gets."""
        session, _outcome = self.run_and_tell(subject, point, tell=tell, keep=keep)
        return session

    def run_and_tell(self, subject: Subject, point: Point, *, tell: Tell, keep: Keep | None = None) -> tuple[Session, Outcome]:
        """Run one point, and return beside the session what only this device has to tell."""
        ground = self.start()
        self._allocator = subject.workload.allocator
        with sampler_on(ground, self.nvml) as sampler:
            heard = Heard(ground=ground, sampler=sampler, expandable=None, is_written_down=keep is not None)
            run = Run(driver=self.driver, subject=subject, point=point, tell=tell, enter=heard.enter)
            if keep is not None:
                self.driver.record_history()
            if sampler is None:
                outcome = run.outcome()
            else:
                with sampling(sampler):
                    outcome = run.outcome()
        if keep is not None:
            keep(self.driver.history())
            outcome = untimed(outcome)
        heard.expandable = self.driver.has_expandable_segments()
        run.clear()
        self._kernel = outcome.chosen[0] if outcome.chosen else None
        return session_of(subject, point, outcome, heard), outcome

    def environment(self) -> dict[str, str | int | None]:
        """Return the GPU, its driver, how the allocator was set, and the kernel that CUDA itself chose for attention."""
        ground, facts = self.start(), self.driver.facts()
        return {
            "gpu": facts.name,
            "gpu_memory_bytes": facts.memory_bytes,
            "compute_capability": facts.compute_capability,
            "driver": None if isinstance(ground, NoGround) else ground.driver_version,
            "cuda": self.driver.runtime_version(),
            "mig": None if isinstance(ground, NoGround) or ground.gpu.parent_uuid is None else ground.gpu.name,
            "allocator": self._allocator.value,
            "attention_kernel": self._kernel,
        }

    def start(self) -> Ground | NoGround:
        """Start CUDA where it has not been yet; raises Refusal where it does not start."""
        if self._ground is None:
            try:
                self._ground = start_on_ground(self.driver, self.nvml, self.environ)
            except (RuntimeError, AssertionError) as error:
                message = f"CUDA does not start here ({error}); device cuda needs an NVIDIA GPU that is visible, see nvidia-smi"
                raise Refusal(FailureKind.NOT_AVAILABLE_YET, message) from error
        return self._ground
