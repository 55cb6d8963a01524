"""Sentences of measurements, imports and calibrations."""

from collections.abc import Mapping

MEASURED: Mapping[str, Mapping[str, str]] = {
    "PlannedRunAnswer": {
        "num_layers": "Layers of the model that this run would build.",
        "micro_batch_size": "Sequences at once.",
        "sequence_length": "Tokens of one sequence, those that are decoded included.",
        "output_tokens": "Tokens of it that are decoded, 0 in training.",
        "why": "What the run is for.",
        "expected_s": "Seconds that it is expected to take on the device.",
    },
    "DryRunAnswer": {
        "dry_run": "Always true: nothing was stored, and no worker was asked.",
        "runs": "The runs, in their order.",
        "notes": "What the plan leaves out or assumes.",
        "told_at": "When that worker told of its host, RFC 3339, UTC; null where none has.",
    },
    "ArtifactAnswer": {
        "name": "Name of the file, the last part of its path.",
        "media_type": "Its media type.",
        "bytes": "Its size in bytes.",
        "sha256": "SHA-256 of its content, in hexadecimal digits.",
    },
    "MeasurementAnswer": {
        "id": "Id of the measurement.",
        "status": "`queued`, `running`, `succeeded`, `failed` or `cancelled`.",
        "attempt": "Number of the try that runs or ran, 0 while it waits for the first.",
        "device": "Where the probe runs: `cpu`, `cuda` or `trace`.",
        "family": "Family of the model; null where it is not known.",
        "task": "`train` or `serve`; null where an import does not say.",
        "gpu": "The GPU that the answer is wanted for; null where none was named.",
        "created_by": "Name of the key that asked for it, which may cancel and withdraw it; null "
        "of a model's recording, and where it is older than owners.",
        "created_at": "When it was asked for, RFC 3339, UTC.",
        "started_at": "When its last try began, RFC 3339, UTC; null while it waits.",
        "finished_at": "When it ended, RFC 3339, UTC; null until then.",
        "worker": "Name of the worker that runs or ran it; null while it waits.",
        "cancel_requested": "Whether somebody withdrew it while it ran.",
        "environment": "Host, GPU, driver and releases that it ran on and with.",
        "instants": "Readings by part of a step.",
        "step_time_s": "Seconds of a step: the median and others of those that were timed; null "
        "where none was.",
        "notes": "What the numbers do not hold for.",
    },
    "SampleAnswer": {
        "attempt": "The try that it is of.",
        "seq": "Its number within the try.",
        "kind": "Which counter was read: `allocated`, `reserved`, `device` and others.",
        "bytes": "Its value in bytes.",
    },
    "EventAnswer": {
        "event": "What `data` is: the new status, the plan, the progress or one reading.",
    },
    "ImportJob": {"match": "Which of the file's readings are of this job."},
    "ImportEnvironment": {
        "cuda": "Version of CUDA.",
        "transformers": "Version of transformers.",
        "peft": "Version of PEFT.",
    },
    "ImportRequest": {
        "environment": "What it ran on and with, where the file does not say it.",
    },
    "ReadingAnswer": {
        "quantity": "What was read: `allocated`, `reserved`, `device` and others.",
        "low": "The least that the counter stood for, in bytes or tokens.",
        "high": "The most that it stood for; null where it says only that it was this or more.",
        "num_samples": "Lines of the file that it is the highest of.",
        "line": "Line of the file, counted from 1; null in files without lines.",
        "since": "When the first of them was read, as the file has it; null where it has no times.",
        "until": "When the last of them was read; null where the file has no times.",
    },
    "ImportItem": {
        "job": "The job as the file names it; null where it names none.",
        "gpu": "The GPU that it ran on; null where it is not known, which refuses it.",
        "environment": "What it ran on and with.",
        "peaks": "The highest readings, by quantity.",
        "readings": "The numbers of the file that it is made of.",
        "notes": "What was filled in from the file.",
        "problems": "Why it was refused; empty where it was not.",
    },
    "LeftOutAnswer": {
        "line": "Line of the file, counted from 1; null in files without lines.",
        "what": "What was left out.",
        "reason": "Why it became no reading.",
    },
    "ImportAnswer": {
        "dry_run": "Whether nothing was stored.",
        "format": "Whose file it is.",
        "num_stored": "Measurements that were stored now.",
        "items": "One for each job of the file.",
        "num_left_out": "Parts of the file that became no reading.",
        "notes": "What holds for the whole file.",
    },
    "CalibrationAnswer": {
        "id": "Id of the calibration.",
        "key": "Hash of all that moves the curve: model, workload and layout, without batch, "
        "length and depth.",
        "quantity": "What it corrects: `allocated`, `reserved`, `device`, `step_time` or "
        "`prefill_time`.",
        "family": "Family of the model.",
        "scope": "What the key stands for, in words of a request.",
        "correction": "The curves that are added to the analytic answer, in bytes or in logarithms "
        "of times, with the points that they rest on.",
        "drift": "What newer measurements say of it.",
        "created_at": "When it was learnt, RFC 3339, UTC.",
    },
    "CalibrationPoolAnswer": {
        "name": "Name of the pool.",
        "quantity": "What it corrects.",
        "kind": "The kind of run, whose keys learn from each other.",
        "environment": "What was measured on and with.",
        "family": "Family of the models; null of what all families share.",
        "keys": "Keys that it rests on.",
        "measurements": "Measurements that it rests on.",
    },
    "ClassAnswer": {
        "kind": "The kind of run.",
        "quantity": "What was measured.",
        "count": "Measurements of it.",
    },
    "ShippedAnswer": {"kind": "The kind of run.", "quantity": "Whose interval it is."},
    "AccuracyAnswer": {
        "classes": "Errors by kind of run, quantity and GPU.",
        "shipped": "Intervals of answers before anything was measured here.",
    },
}
_SOURCES = {
    "": "as measured",
    "predicted": "as the analytic answer has it",
    "calibrated": "as the answer has it that rests on everything else that was learnt",
}
_QUANTITIES = {
    "allocated": "The most bytes of live tensors",
    "reserved": "The most bytes that the allocator had taken",
    "device": "The most bytes of the process in NVML",
    "device_total_used": "The most bytes of all processes on the GPU",
    "weight": "Bytes of the weights in the engine's log",
    "kv_pool": "Bytes of the engine's pool",
    "kv_pool_tokens": "Tokens that the engine's pool holds",
    "step_time": "Seconds of a step",
}
_ENDS = {"": "", "low": ": the lower end of its 0.95 interval", "high": ": its upper end"}
_UNITS = ("_bytes", "_s")
_ANSWERS = ("predicted_", "calibrated_")
ROW: Mapping[str, str] = {
    "id": "Id of the measurement.",
    "created_at": "When it was asked for, RFC 3339, UTC.",
    "finished_at": "When it ended, RFC 3339, UTC.",
    "source": "Who measured: `probe` or `import`.",
    "status": "State of the measurement.",
    "problem": "Why it failed: the slug of the problem document.",
    "device": "Where the probe ran: `cpu`, `cuda` or `trace`.",
    "model": "Name of the model.",
    "family": "Family of the model.",
    "task": "`train` or `serve`.",
    "gpu": "The GPU that the answer is wanted for.",
    "num_gpus": "GPUs of the layout.",
    "method": "How it was trained: `full`, `lora`, `qlora` or `peft`.",
    "out_of_memory": "Whether the run ended out of memory: its numbers are lower bounds.",
    "extrapolated": "Whether the numbers come from slices of the model.",
    "calibration": "Id of the calibration that it went into.",
    "host": "Host name of the machine.",
    "driver": "Version of the driver.",
    "cuda": "Version of CUDA.",
    "torch": "Version of PyTorch.",
    "transformers": "Version of transformers.",
    "peft": "Version of PEFT.",
    "engine_version": "Version of the serving engine.",
    "allocator": "Mode of PyTorch's allocator.",
}


def describe_row_field(name: str) -> str | None:
    """Return the sentence of a column of measurements."""
    if name in ROW:
        return ROW[name]
    source, _, quantity = name.partition("_") if name.startswith(_ANSWERS) else ("", "", name)
    for unit in _UNITS:
        quantity = quantity.removesuffix(unit)
    end = next((end for end in ("low", "high") if quantity.endswith(f"_{end}")), "")
    what = _QUANTITIES.get(quantity.removesuffix(f"_{end}") if end else quantity)
    return None if what is None else f"{what}, {_SOURCES[source]}{_ENDS[end]}."
