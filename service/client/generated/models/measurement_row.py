from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="MeasurementRow")


@_attrs_define
class MeasurementRow:
    """One line; null, in CSV empty, is what was not measured, not predicted, or not said.

    Errors are those of the analytic answer; `calibrated_` ones of the answer that rests on everything else that was
    learnt. `_low_` to `_high_` is the 0.95 interval of an answer.

        Attributes:
            id (str): Id of the measurement.
            created_at (str): When it was asked for, RFC 3339, UTC.
            finished_at (None | str): When it ended, RFC 3339, UTC.
            source (str): Who measured: `probe` or `import`.
            status (str): State of the measurement.
            problem (None | str): Why it failed: the slug of the problem document.
            device (str): Where the probe ran: `cpu`, `cuda` or `trace`.
            model (None | str): Name of the model.
            family (None | str): Family of the model.
            task (None | str): `train` or `serve`.
            gpu (None | str): The GPU that the answer is wanted for.
            num_gpus (int | None): GPUs of the layout.
            framework (None | str): Whose model code ran, or which engine.
            method (None | str): How it was trained: `full`, `lora`, `qlora` or `peft`.
            precision (None | str): Policy of a training, dtype of served weights.
            batch (int | None): Sequences at once on one rank.
            sequence_length (int | None): Tokens of one sequence, output included.
            out_of_memory (bool | None): Whether the run ended out of memory: its numbers are lower bounds.
            extrapolated (bool | None): Whether the numbers come from slices of the model.
            allocated_bytes (int | None): The most bytes of live tensors, as measured.
            predicted_allocated_bytes (int | None): The most bytes of live tensors, as the analytic answer has it.
            predicted_allocated_low_bytes (int | None): The most bytes of live tensors, as the analytic answer has it: the
                lower end of its 0.95 interval.
            predicted_allocated_high_bytes (int | None): The most bytes of live tensors, as the analytic answer has it: its
                upper end.
            allocated_error (float | None): Its answer over what was measured, less 1.
            calibrated_allocated_bytes (int | None): The most bytes of live tensors, as the answer has it that rests on
                everything else that was learnt.
            calibrated_allocated_low_bytes (int | None): The most bytes of live tensors, as the answer has it that rests on
                everything else that was learnt: the lower end of its 0.95 interval.
            calibrated_allocated_high_bytes (int | None): The most bytes of live tensors, as the answer has it that rests on
                everything else that was learnt: its upper end.
            calibrated_allocated_error (float | None): Its answer over what was measured, less 1.
            reserved_bytes (int | None): The most bytes that the allocator had taken, as measured.
            predicted_reserved_bytes (int | None): The most bytes that the allocator had taken, as the analytic answer has
                it.
            predicted_reserved_low_bytes (int | None): The most bytes that the allocator had taken, as the analytic answer
                has it: the lower end of its 0.95 interval.
            predicted_reserved_high_bytes (int | None): The most bytes that the allocator had taken, as the analytic answer
                has it: its upper end.
            reserved_error (float | None): Its answer over what was measured, less 1.
            calibrated_reserved_bytes (int | None): The most bytes that the allocator had taken, as the answer has it that
                rests on everything else that was learnt.
            calibrated_reserved_low_bytes (int | None): The most bytes that the allocator had taken, as the answer has it
                that rests on everything else that was learnt: the lower end of its 0.95 interval.
            calibrated_reserved_high_bytes (int | None): The most bytes that the allocator had taken, as the answer has it
                that rests on everything else that was learnt: its upper end.
            calibrated_reserved_error (float | None): Its answer over what was measured, less 1.
            device_bytes (int | None): The most bytes of the process in NVML, as measured.
            predicted_device_bytes (int | None): The most bytes of the process in NVML, as the analytic answer has it.
            predicted_device_low_bytes (int | None): The most bytes of the process in NVML, as the analytic answer has it:
                the lower end of its 0.95 interval.
            predicted_device_high_bytes (int | None): The most bytes of the process in NVML, as the analytic answer has it:
                its upper end.
            device_error (float | None): Its answer over what was measured, less 1.
            calibrated_device_bytes (int | None): The most bytes of the process in NVML, as the answer has it that rests on
                everything else that was learnt.
            calibrated_device_low_bytes (int | None): The most bytes of the process in NVML, as the answer has it that rests
                on everything else that was learnt: the lower end of its 0.95 interval.
            calibrated_device_high_bytes (int | None): The most bytes of the process in NVML, as the answer has it that
                rests on everything else that was learnt: its upper end.
            calibrated_device_error (float | None): Its answer over what was measured, less 1.
            device_total_used_bytes (int | None): The most bytes of all processes on the GPU, as measured.
            weight_bytes (int | None): Bytes of the weights in the engine's log, as measured.
            predicted_weight_bytes (int | None): Bytes of the weights in the engine's log, as the analytic answer has it.
            weight_error (float | None): Its answer over what was measured, less 1.
            kv_pool_bytes (int | None): Bytes of the engine's pool, as measured.
            predicted_kv_pool_bytes (int | None): Bytes of the engine's pool, as the analytic answer has it.
            kv_pool_error (float | None): Its answer over what was measured, less 1.
            kv_pool_tokens (int | None): Tokens that the engine's pool holds, as measured.
            predicted_kv_pool_tokens (int | None): Tokens that the engine's pool holds, as the analytic answer has it.
            step_time_s (float | None): Seconds of a step, as measured.
            predicted_step_time_s (float | None): Seconds of a step, as the analytic answer has it.
            predicted_step_time_low_s (float | None): Seconds of a step, as the analytic answer has it: the lower end of its
                0.95 interval.
            predicted_step_time_high_s (float | None): Seconds of a step, as the analytic answer has it: its upper end.
            step_time_error (float | None): Its answer over what was measured, less 1.
            calibrated_step_time_s (float | None): Seconds of a step, as the answer has it that rests on everything else
                that was learnt.
            calibrated_step_time_low_s (float | None): Seconds of a step, as the answer has it that rests on everything else
                that was learnt: the lower end of its 0.95 interval.
            calibrated_step_time_high_s (float | None): Seconds of a step, as the answer has it that rests on everything
                else that was learnt: its upper end.
            calibrated_step_time_error (float | None): Its answer over what was measured, less 1.
            calibration (None | str): Id of the calibration that it went into.
            kind (None | str): The class of runs in /v1/accuracy; null where nothing is learnt from it.
            host (None | str): Host name of the machine.
            environment_gpu (None | str): The GPU that ran, as its driver names it.
            driver (None | str): Version of the driver.
            cuda (None | str): Version of CUDA.
            torch (None | str): Version of PyTorch.
            transformers (None | str): Version of transformers.
            peft (None | str): Version of PEFT.
            engine_version (None | str): Version of the serving engine.
            allocator (None | str): Mode of PyTorch's allocator.
    """

    id: str
    created_at: str
    finished_at: None | str
    source: str
    status: str
    problem: None | str
    device: str
    model: None | str
    family: None | str
    task: None | str
    gpu: None | str
    num_gpus: int | None
    framework: None | str
    method: None | str
    precision: None | str
    batch: int | None
    sequence_length: int | None
    out_of_memory: bool | None
    extrapolated: bool | None
    allocated_bytes: int | None
    predicted_allocated_bytes: int | None
    predicted_allocated_low_bytes: int | None
    predicted_allocated_high_bytes: int | None
    allocated_error: float | None
    calibrated_allocated_bytes: int | None
    calibrated_allocated_low_bytes: int | None
    calibrated_allocated_high_bytes: int | None
    calibrated_allocated_error: float | None
    reserved_bytes: int | None
    predicted_reserved_bytes: int | None
    predicted_reserved_low_bytes: int | None
    predicted_reserved_high_bytes: int | None
    reserved_error: float | None
    calibrated_reserved_bytes: int | None
    calibrated_reserved_low_bytes: int | None
    calibrated_reserved_high_bytes: int | None
    calibrated_reserved_error: float | None
    device_bytes: int | None
    predicted_device_bytes: int | None
    predicted_device_low_bytes: int | None
    predicted_device_high_bytes: int | None
    device_error: float | None
    calibrated_device_bytes: int | None
    calibrated_device_low_bytes: int | None
    calibrated_device_high_bytes: int | None
    calibrated_device_error: float | None
    device_total_used_bytes: int | None
    weight_bytes: int | None
    predicted_weight_bytes: int | None
    weight_error: float | None
    kv_pool_bytes: int | None
    predicted_kv_pool_bytes: int | None
    kv_pool_error: float | None
    kv_pool_tokens: int | None
    predicted_kv_pool_tokens: int | None
    step_time_s: float | None
    predicted_step_time_s: float | None
    predicted_step_time_low_s: float | None
    predicted_step_time_high_s: float | None
    step_time_error: float | None
    calibrated_step_time_s: float | None
    calibrated_step_time_low_s: float | None
    calibrated_step_time_high_s: float | None
    calibrated_step_time_error: float | None
    calibration: None | str
    kind: None | str
    host: None | str
    environment_gpu: None | str
    driver: None | str
    cuda: None | str
    torch: None | str
    transformers: None | str
    peft: None | str
    engine_version: None | str
    allocator: None | str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        id = self.id

        created_at = self.created_at

        finished_at: None | str
        finished_at = self.finished_at

        source = self.source

        status = self.status

        problem: None | str
        problem = self.problem

        device = self.device

        model: None | str
        model = self.model

        family: None | str
        family = self.family

        task: None | str
        task = self.task

        gpu: None | str
        gpu = self.gpu

        num_gpus: int | None
        num_gpus = self.num_gpus

        framework: None | str
        framework = self.framework

        method: None | str
        method = self.method

        precision: None | str
        precision = self.precision

        batch: int | None
        batch = self.batch

        sequence_length: int | None
        sequence_length = self.sequence_length

        out_of_memory: bool | None
        out_of_memory = self.out_of_memory

        extrapolated: bool | None
        extrapolated = self.extrapolated

        allocated_bytes: int | None
        allocated_bytes = self.allocated_bytes

        predicted_allocated_bytes: int | None
        predicted_allocated_bytes = self.predicted_allocated_bytes

        predicted_allocated_low_bytes: int | None
        predicted_allocated_low_bytes = self.predicted_allocated_low_bytes

        predicted_allocated_high_bytes: int | None
        predicted_allocated_high_bytes = self.predicted_allocated_high_bytes

        allocated_error: float | None
        allocated_error = self.allocated_error

        calibrated_allocated_bytes: int | None
        calibrated_allocated_bytes = self.calibrated_allocated_bytes

        calibrated_allocated_low_bytes: int | None
        calibrated_allocated_low_bytes = self.calibrated_allocated_low_bytes

        calibrated_allocated_high_bytes: int | None
        calibrated_allocated_high_bytes = self.calibrated_allocated_high_bytes

        calibrated_allocated_error: float | None
        calibrated_allocated_error = self.calibrated_allocated_error

        reserved_bytes: int | None
        reserved_bytes = self.reserved_bytes

        predicted_reserved_bytes: int | None
        predicted_reserved_bytes = self.predicted_reserved_bytes

        predicted_reserved_low_bytes: int | None
        predicted_reserved_low_bytes = self.predicted_reserved_low_bytes

        predicted_reserved_high_bytes: int | None
        predicted_reserved_high_bytes = self.predicted_reserved_high_bytes

        reserved_error: float | None
        reserved_error = self.reserved_error

        calibrated_reserved_bytes: int | None
        calibrated_reserved_bytes = self.calibrated_reserved_bytes

        calibrated_reserved_low_bytes: int | None
        calibrated_reserved_low_bytes = self.calibrated_reserved_low_bytes

        calibrated_reserved_high_bytes: int | None
        calibrated_reserved_high_bytes = self.calibrated_reserved_high_bytes

        calibrated_reserved_error: float | None
        calibrated_reserved_error = self.calibrated_reserved_error

        device_bytes: int | None
        device_bytes = self.device_bytes

        predicted_device_bytes: int | None
        predicted_device_bytes = self.predicted_device_bytes

        predicted_device_low_bytes: int | None
        predicted_device_low_bytes = self.predicted_device_low_bytes

        predicted_device_high_bytes: int | None
        predicted_device_high_bytes = self.predicted_device_high_bytes

        device_error: float | None
        device_error = self.device_error

        calibrated_device_bytes: int | None
        calibrated_device_bytes = self.calibrated_device_bytes

        calibrated_device_low_bytes: int | None
        calibrated_device_low_bytes = self.calibrated_device_low_bytes

        calibrated_device_high_bytes: int | None
        calibrated_device_high_bytes = self.calibrated_device_high_bytes

        calibrated_device_error: float | None
        calibrated_device_error = self.calibrated_device_error

        device_total_used_bytes: int | None
        device_total_used_bytes = self.device_total_used_bytes

        weight_bytes: int | None
        weight_bytes = self.weight_bytes

        predicted_weight_bytes: int | None
        predicted_weight_bytes = self.predicted_weight_bytes

        weight_error: float | None
        weight_error = self.weight_error

        kv_pool_bytes: int | None
        kv_pool_bytes = self.kv_pool_bytes

        predicted_kv_pool_bytes: int | None
        predicted_kv_pool_bytes = self.predicted_kv_pool_bytes

        kv_pool_error: float | None
        kv_pool_error = self.kv_pool_error

        kv_pool_tokens: int | None
        kv_pool_tokens = self.kv_pool_tokens

        predicted_kv_pool_tokens: int | None
        predicted_kv_pool_tokens = self.predicted_kv_pool_tokens

        step_time_s: float | None
        step_time_s = self.step_time_s

        predicted_step_time_s: float | None
        predicted_step_time_s = self.predicted_step_time_s

        predicted_step_time_low_s: float | None
        predicted_step_time_low_s = self.predicted_step_time_low_s

        predicted_step_time_high_s: float | None
        predicted_step_time_high_s = self.predicted_step_time_high_s

        step_time_error: float | None
        step_time_error = self.step_time_error

        calibrated_step_time_s: float | None
        calibrated_step_time_s = self.calibrated_step_time_s

        calibrated_step_time_low_s: float | None
        calibrated_step_time_low_s = self.calibrated_step_time_low_s

        calibrated_step_time_high_s: float | None
        calibrated_step_time_high_s = self.calibrated_step_time_high_s

        calibrated_step_time_error: float | None
        calibrated_step_time_error = self.calibrated_step_time_error

        calibration: None | str
        calibration = self.calibration

        kind: None | str
        kind = self.kind

        host: None | str
        host = self.host

        environment_gpu: None | str
        environment_gpu = self.environment_gpu

        driver: None | str
        driver = self.driver

        cuda: None | str
        cuda = self.cuda

        torch: None | str
        torch = self.torch

        transformers: None | str
        transformers = self.transformers

        peft: None | str
        peft = self.peft

        engine_version: None | str
        engine_version = self.engine_version

        allocator: None | str
        allocator = self.allocator

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "created_at": created_at,
                "finished_at": finished_at,
                "source": source,
                "status": status,
                "problem": problem,
                "device": device,
                "model": model,
                "family": family,
                "task": task,
                "gpu": gpu,
                "num_gpus": num_gpus,
                "framework": framework,
                "method": method,
                "precision": precision,
                "batch": batch,
                "sequence_length": sequence_length,
                "out_of_memory": out_of_memory,
                "extrapolated": extrapolated,
                "allocated_bytes": allocated_bytes,
                "predicted_allocated_bytes": predicted_allocated_bytes,
                "predicted_allocated_low_bytes": predicted_allocated_low_bytes,
                "predicted_allocated_high_bytes": predicted_allocated_high_bytes,
                "allocated_error": allocated_error,
                "calibrated_allocated_bytes": calibrated_allocated_bytes,
                "calibrated_allocated_low_bytes": calibrated_allocated_low_bytes,
                "calibrated_allocated_high_bytes": calibrated_allocated_high_bytes,
                "calibrated_allocated_error": calibrated_allocated_error,
                "reserved_bytes": reserved_bytes,
                "predicted_reserved_bytes": predicted_reserved_bytes,
                "predicted_reserved_low_bytes": predicted_reserved_low_bytes,
                "predicted_reserved_high_bytes": predicted_reserved_high_bytes,
                "reserved_error": reserved_error,
                "calibrated_reserved_bytes": calibrated_reserved_bytes,
                "calibrated_reserved_low_bytes": calibrated_reserved_low_bytes,
                "calibrated_reserved_high_bytes": calibrated_reserved_high_bytes,
                "calibrated_reserved_error": calibrated_reserved_error,
                "device_bytes": device_bytes,
                "predicted_device_bytes": predicted_device_bytes,
                "predicted_device_low_bytes": predicted_device_low_bytes,
                "predicted_device_high_bytes": predicted_device_high_bytes,
                "device_error": device_error,
                "calibrated_device_bytes": calibrated_device_bytes,
                "calibrated_device_low_bytes": calibrated_device_low_bytes,
                "calibrated_device_high_bytes": calibrated_device_high_bytes,
                "calibrated_device_error": calibrated_device_error,
                "device_total_used_bytes": device_total_used_bytes,
                "weight_bytes": weight_bytes,
                "predicted_weight_bytes": predicted_weight_bytes,
                "weight_error": weight_error,
                "kv_pool_bytes": kv_pool_bytes,
                "predicted_kv_pool_bytes": predicted_kv_pool_bytes,
                "kv_pool_error": kv_pool_error,
                "kv_pool_tokens": kv_pool_tokens,
                "predicted_kv_pool_tokens": predicted_kv_pool_tokens,
                "step_time_s": step_time_s,
                "predicted_step_time_s": predicted_step_time_s,
                "predicted_step_time_low_s": predicted_step_time_low_s,
                "predicted_step_time_high_s": predicted_step_time_high_s,
                "step_time_error": step_time_error,
                "calibrated_step_time_s": calibrated_step_time_s,
                "calibrated_step_time_low_s": calibrated_step_time_low_s,
                "calibrated_step_time_high_s": calibrated_step_time_high_s,
                "calibrated_step_time_error": calibrated_step_time_error,
                "calibration": calibration,
                "kind": kind,
                "host": host,
                "environment_gpu": environment_gpu,
                "driver": driver,
                "cuda": cuda,
                "torch": torch,
                "transformers": transformers,
                "peft": peft,
                "engine_version": engine_version,
                "allocator": allocator,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        id = d.pop("id")

        created_at = d.pop("created_at")

        def _parse_finished_at(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        finished_at = _parse_finished_at(d.pop("finished_at"))

        source = d.pop("source")

        status = d.pop("status")

        def _parse_problem(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        problem = _parse_problem(d.pop("problem"))

        device = d.pop("device")

        def _parse_model(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        model = _parse_model(d.pop("model"))

        def _parse_family(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        family = _parse_family(d.pop("family"))

        def _parse_task(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        task = _parse_task(d.pop("task"))

        def _parse_gpu(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        gpu = _parse_gpu(d.pop("gpu"))

        def _parse_num_gpus(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        num_gpus = _parse_num_gpus(d.pop("num_gpus"))

        def _parse_framework(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        framework = _parse_framework(d.pop("framework"))

        def _parse_method(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        method = _parse_method(d.pop("method"))

        def _parse_precision(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        precision = _parse_precision(d.pop("precision"))

        def _parse_batch(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        batch = _parse_batch(d.pop("batch"))

        def _parse_sequence_length(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        sequence_length = _parse_sequence_length(d.pop("sequence_length"))

        def _parse_out_of_memory(data: object) -> bool | None:
            if data is None:
                return data
            return cast(bool | None, data)

        out_of_memory = _parse_out_of_memory(d.pop("out_of_memory"))

        def _parse_extrapolated(data: object) -> bool | None:
            if data is None:
                return data
            return cast(bool | None, data)

        extrapolated = _parse_extrapolated(d.pop("extrapolated"))

        def _parse_allocated_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        allocated_bytes = _parse_allocated_bytes(d.pop("allocated_bytes"))

        def _parse_predicted_allocated_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        predicted_allocated_bytes = _parse_predicted_allocated_bytes(d.pop("predicted_allocated_bytes"))

        def _parse_predicted_allocated_low_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        predicted_allocated_low_bytes = _parse_predicted_allocated_low_bytes(d.pop("predicted_allocated_low_bytes"))

        def _parse_predicted_allocated_high_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        predicted_allocated_high_bytes = _parse_predicted_allocated_high_bytes(d.pop("predicted_allocated_high_bytes"))

        def _parse_allocated_error(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        allocated_error = _parse_allocated_error(d.pop("allocated_error"))

        def _parse_calibrated_allocated_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        calibrated_allocated_bytes = _parse_calibrated_allocated_bytes(d.pop("calibrated_allocated_bytes"))

        def _parse_calibrated_allocated_low_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        calibrated_allocated_low_bytes = _parse_calibrated_allocated_low_bytes(d.pop("calibrated_allocated_low_bytes"))

        def _parse_calibrated_allocated_high_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        calibrated_allocated_high_bytes = _parse_calibrated_allocated_high_bytes(d.pop("calibrated_allocated_high_bytes"))

        def _parse_calibrated_allocated_error(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        calibrated_allocated_error = _parse_calibrated_allocated_error(d.pop("calibrated_allocated_error"))

        def _parse_reserved_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        reserved_bytes = _parse_reserved_bytes(d.pop("reserved_bytes"))

        def _parse_predicted_reserved_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        predicted_reserved_bytes = _parse_predicted_reserved_bytes(d.pop("predicted_reserved_bytes"))

        def _parse_predicted_reserved_low_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        predicted_reserved_low_bytes = _parse_predicted_reserved_low_bytes(d.pop("predicted_reserved_low_bytes"))

        def _parse_predicted_reserved_high_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        predicted_reserved_high_bytes = _parse_predicted_reserved_high_bytes(d.pop("predicted_reserved_high_bytes"))

        def _parse_reserved_error(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        reserved_error = _parse_reserved_error(d.pop("reserved_error"))

        def _parse_calibrated_reserved_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        calibrated_reserved_bytes = _parse_calibrated_reserved_bytes(d.pop("calibrated_reserved_bytes"))

        def _parse_calibrated_reserved_low_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        calibrated_reserved_low_bytes = _parse_calibrated_reserved_low_bytes(d.pop("calibrated_reserved_low_bytes"))

        def _parse_calibrated_reserved_high_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        calibrated_reserved_high_bytes = _parse_calibrated_reserved_high_bytes(d.pop("calibrated_reserved_high_bytes"))

        def _parse_calibrated_reserved_error(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        calibrated_reserved_error = _parse_calibrated_reserved_error(d.pop("calibrated_reserved_error"))

        def _parse_device_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        device_bytes = _parse_device_bytes(d.pop("device_bytes"))

        def _parse_predicted_device_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        predicted_device_bytes = _parse_predicted_device_bytes(d.pop("predicted_device_bytes"))

        def _parse_predicted_device_low_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        predicted_device_low_bytes = _parse_predicted_device_low_bytes(d.pop("predicted_device_low_bytes"))

        def _parse_predicted_device_high_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        predicted_device_high_bytes = _parse_predicted_device_high_bytes(d.pop("predicted_device_high_bytes"))

        def _parse_device_error(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        device_error = _parse_device_error(d.pop("device_error"))

        def _parse_calibrated_device_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        calibrated_device_bytes = _parse_calibrated_device_bytes(d.pop("calibrated_device_bytes"))

        def _parse_calibrated_device_low_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        calibrated_device_low_bytes = _parse_calibrated_device_low_bytes(d.pop("calibrated_device_low_bytes"))

        def _parse_calibrated_device_high_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        calibrated_device_high_bytes = _parse_calibrated_device_high_bytes(d.pop("calibrated_device_high_bytes"))

        def _parse_calibrated_device_error(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        calibrated_device_error = _parse_calibrated_device_error(d.pop("calibrated_device_error"))

        def _parse_device_total_used_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        device_total_used_bytes = _parse_device_total_used_bytes(d.pop("device_total_used_bytes"))

        def _parse_weight_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        weight_bytes = _parse_weight_bytes(d.pop("weight_bytes"))

        def _parse_predicted_weight_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        predicted_weight_bytes = _parse_predicted_weight_bytes(d.pop("predicted_weight_bytes"))

        def _parse_weight_error(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        weight_error = _parse_weight_error(d.pop("weight_error"))

        def _parse_kv_pool_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        kv_pool_bytes = _parse_kv_pool_bytes(d.pop("kv_pool_bytes"))

        def _parse_predicted_kv_pool_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        predicted_kv_pool_bytes = _parse_predicted_kv_pool_bytes(d.pop("predicted_kv_pool_bytes"))

        def _parse_kv_pool_error(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        kv_pool_error = _parse_kv_pool_error(d.pop("kv_pool_error"))

        def _parse_kv_pool_tokens(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        kv_pool_tokens = _parse_kv_pool_tokens(d.pop("kv_pool_tokens"))

        def _parse_predicted_kv_pool_tokens(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        predicted_kv_pool_tokens = _parse_predicted_kv_pool_tokens(d.pop("predicted_kv_pool_tokens"))

        def _parse_step_time_s(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        step_time_s = _parse_step_time_s(d.pop("step_time_s"))

        def _parse_predicted_step_time_s(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        predicted_step_time_s = _parse_predicted_step_time_s(d.pop("predicted_step_time_s"))

        def _parse_predicted_step_time_low_s(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        predicted_step_time_low_s = _parse_predicted_step_time_low_s(d.pop("predicted_step_time_low_s"))

        def _parse_predicted_step_time_high_s(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        predicted_step_time_high_s = _parse_predicted_step_time_high_s(d.pop("predicted_step_time_high_s"))

        def _parse_step_time_error(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        step_time_error = _parse_step_time_error(d.pop("step_time_error"))

        def _parse_calibrated_step_time_s(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        calibrated_step_time_s = _parse_calibrated_step_time_s(d.pop("calibrated_step_time_s"))

        def _parse_calibrated_step_time_low_s(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        calibrated_step_time_low_s = _parse_calibrated_step_time_low_s(d.pop("calibrated_step_time_low_s"))

        def _parse_calibrated_step_time_high_s(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        calibrated_step_time_high_s = _parse_calibrated_step_time_high_s(d.pop("calibrated_step_time_high_s"))

        def _parse_calibrated_step_time_error(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        calibrated_step_time_error = _parse_calibrated_step_time_error(d.pop("calibrated_step_time_error"))

        def _parse_calibration(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        calibration = _parse_calibration(d.pop("calibration"))

        def _parse_kind(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        kind = _parse_kind(d.pop("kind"))

        def _parse_host(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        host = _parse_host(d.pop("host"))

        def _parse_environment_gpu(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        environment_gpu = _parse_environment_gpu(d.pop("environment_gpu"))

        def _parse_driver(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        driver = _parse_driver(d.pop("driver"))

        def _parse_cuda(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        cuda = _parse_cuda(d.pop("cuda"))

        def _parse_torch(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        torch = _parse_torch(d.pop("torch"))

        def _parse_transformers(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        transformers = _parse_transformers(d.pop("transformers"))

        def _parse_peft(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        peft = _parse_peft(d.pop("peft"))

        def _parse_engine_version(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        engine_version = _parse_engine_version(d.pop("engine_version"))

        def _parse_allocator(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        allocator = _parse_allocator(d.pop("allocator"))

        measurement_row = cls(
            id=id,
            created_at=created_at,
            finished_at=finished_at,
            source=source,
            status=status,
            problem=problem,
            device=device,
            model=model,
            family=family,
            task=task,
            gpu=gpu,
            num_gpus=num_gpus,
            framework=framework,
            method=method,
            precision=precision,
            batch=batch,
            sequence_length=sequence_length,
            out_of_memory=out_of_memory,
            extrapolated=extrapolated,
            allocated_bytes=allocated_bytes,
            predicted_allocated_bytes=predicted_allocated_bytes,
            predicted_allocated_low_bytes=predicted_allocated_low_bytes,
            predicted_allocated_high_bytes=predicted_allocated_high_bytes,
            allocated_error=allocated_error,
            calibrated_allocated_bytes=calibrated_allocated_bytes,
            calibrated_allocated_low_bytes=calibrated_allocated_low_bytes,
            calibrated_allocated_high_bytes=calibrated_allocated_high_bytes,
            calibrated_allocated_error=calibrated_allocated_error,
            reserved_bytes=reserved_bytes,
            predicted_reserved_bytes=predicted_reserved_bytes,
            predicted_reserved_low_bytes=predicted_reserved_low_bytes,
            predicted_reserved_high_bytes=predicted_reserved_high_bytes,
            reserved_error=reserved_error,
            calibrated_reserved_bytes=calibrated_reserved_bytes,
            calibrated_reserved_low_bytes=calibrated_reserved_low_bytes,
            calibrated_reserved_high_bytes=calibrated_reserved_high_bytes,
            calibrated_reserved_error=calibrated_reserved_error,
            device_bytes=device_bytes,
            predicted_device_bytes=predicted_device_bytes,
            predicted_device_low_bytes=predicted_device_low_bytes,
            predicted_device_high_bytes=predicted_device_high_bytes,
            device_error=device_error,
            calibrated_device_bytes=calibrated_device_bytes,
            calibrated_device_low_bytes=calibrated_device_low_bytes,
            calibrated_device_high_bytes=calibrated_device_high_bytes,
            calibrated_device_error=calibrated_device_error,
            device_total_used_bytes=device_total_used_bytes,
            weight_bytes=weight_bytes,
            predicted_weight_bytes=predicted_weight_bytes,
            weight_error=weight_error,
            kv_pool_bytes=kv_pool_bytes,
            predicted_kv_pool_bytes=predicted_kv_pool_bytes,
            kv_pool_error=kv_pool_error,
            kv_pool_tokens=kv_pool_tokens,
            predicted_kv_pool_tokens=predicted_kv_pool_tokens,
            step_time_s=step_time_s,
            predicted_step_time_s=predicted_step_time_s,
            predicted_step_time_low_s=predicted_step_time_low_s,
            predicted_step_time_high_s=predicted_step_time_high_s,
            step_time_error=step_time_error,
            calibrated_step_time_s=calibrated_step_time_s,
            calibrated_step_time_low_s=calibrated_step_time_low_s,
            calibrated_step_time_high_s=calibrated_step_time_high_s,
            calibrated_step_time_error=calibrated_step_time_error,
            calibration=calibration,
            kind=kind,
            host=host,
            environment_gpu=environment_gpu,
            driver=driver,
            cuda=cuda,
            torch=torch,
            transformers=transformers,
            peft=peft,
            engine_version=engine_version,
            allocator=allocator,
        )

        measurement_row.additional_properties = d
        return measurement_row

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
