"""Device ``cuda``: real runs on the first GPU that CUDA shows."""

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
from worker.nvml.sampler import sample_in_thread
from worker.probes.cuda.baseline import (
    BaselineUnavailable,
    GpuBaseline,
    open_sampler,
    start_and_measure_baseline,
)
from worker.probes.cuda.driver import Driver, TorchDriver
from worker.probes.cuda.interpret import DeviceObservations, build_result
from worker.probes.cuda.run import Run, RunOutcome, drop_times
from worker.probes.cuda.speed import BenchmarkSize, measure_copy_speed, measure_matrix_flops
from worker.probes.run.backend import OnStep, PointResult, ProbeSetup, SaveSnapshot


@dataclass(slots=True, kw_only=True)
class CudaBackend:
    """Backend that runs points on one GPU.

    CUDA starts with the first call that needs it.
    """

    device: ProbeDevice = ProbeDevice.CUDA
    driver: Driver = field(default_factory=TorchDriver)
    nvml: Api = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    benchmark_size: BenchmarkSize = field(default_factory=BenchmarkSize)
    _baseline: GpuBaseline | BaselineUnavailable | None = None
    _allocator: Allocator = Allocator.DEFAULT
    _kernel: str | None = None

    def host(self, dtype: DType) -> Host:
        """Return the GPU's free memory and its speed in ``dtype``.

        Raises Refusal where CUDA does not start.
        """
        self.start()
        driver = self.driver
        flops_per_second = measure_matrix_flops(driver, dtype, self.benchmark_size)
        bytes_per_second = measure_copy_speed(driver, self.benchmark_size)
        driver.drop_workspaces()
        driver.release()
        return Host(
            available_bytes=driver.free_bytes(),
            flops_per_second=flops_per_second,
            state_bytes_per_second=bytes_per_second,
            reserves=True,
            num_steps=NUM_ROUNDS,
        )

    def run(
        self,
        setup: ProbeSetup,
        point: Point,
        *,
        on_step: OnStep,
        save_snapshot: SaveSnapshot | None = None,
    ) -> PointResult:
        """Build, run and measure one point.

        Nothing of it is left afterwards but what ``save_snapshot`` gets.
        """
        result, _outcome = self.run_with_outcome(
            setup, point, on_step=on_step, save_snapshot=save_snapshot
        )
        return result

    def run_with_outcome(
        self,
        setup: ProbeSetup,
        point: Point,
        *,
        on_step: OnStep,
        save_snapshot: SaveSnapshot | None = None,
    ) -> tuple[PointResult, RunOutcome]:
        """Run one point and return its result with the GPU's own outcome."""
        baseline = self.start()
        self._allocator = setup.workload.allocator
        with open_sampler(baseline, self.nvml) as sampler:
            observations = DeviceObservations(
                baseline=baseline,
                sampler=sampler,
                expandable=None,
                has_history=save_snapshot is not None,
            )
            run = Run(
                driver=self.driver,
                setup=setup,
                point=point,
                on_step=on_step,
                on_instant=observations.enter,
            )
            if save_snapshot is not None:
                self.driver.record_history()
            if sampler is None:
                outcome = run.execute()
            else:
                with sample_in_thread(sampler):
                    outcome = run.execute()
        if save_snapshot is not None:
            save_snapshot(self.driver.history())
            outcome = drop_times(outcome)
        observations.expandable = self.driver.has_expandable_segments()
        run.clear()
        self._kernel = outcome.chosen[0] if outcome.chosen else None
        return build_result(setup, point, outcome, observations), outcome

    def environment(self) -> dict[str, str | int | None]:
        """Return the GPU, its driver, the allocator and the attention kernel.

        The kernel is the one that CUDA itself chose.
        """
        baseline, properties = self.start(), self.driver.facts()
        return {
            "gpu": properties.name,
            "gpu_memory_bytes": properties.memory_bytes,
            "compute_capability": properties.compute_capability,
            "driver": None
            if isinstance(baseline, BaselineUnavailable)
            else baseline.driver_version,
            "cuda": self.driver.runtime_version(),
            "mig": None
            if isinstance(baseline, BaselineUnavailable) or baseline.gpu.parent_uuid is None
            else baseline.gpu.name,
            "allocator": self._allocator.value,
            "attention_kernel": self._kernel,
        }

    def start(self) -> GpuBaseline | BaselineUnavailable:
        """Start CUDA where it is not started yet.

        Raises Refusal where it does not start.
        """
        if self._baseline is None:
            try:
                self._baseline = start_and_measure_baseline(self.driver, self.nvml, self.environ)
            except (RuntimeError, AssertionError) as error:
                message = (
                    f"CUDA does not start here ({error}); device cuda needs an NVIDIA GPU that is "
                    "visible, see nvidia-smi"
                )
                raise Refusal(FailureKind.NOT_AVAILABLE_YET, message) from error
        return self._baseline
