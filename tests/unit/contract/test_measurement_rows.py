"""Measurements as rows of a table: the same columns in JSON and in CSV, and no formula in any
cell.
"""

import csv
import io
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.contract.to_answer.formats.csv_tables import FORMULA, render_csv
from service.contract.to_answer.measurement_rows import COLUMNS, build_row
from service.jobs.states import Status
from service.usecases.stored import MeasurementLine, StoredResidual

MEASURED = MeasurementLine(
    id=UUID(int=7),
    status=Status.SUCCEEDED,
    source="probe",
    device="trace",
    gpu="H200",
    model="llama-3.2-1b",
    family="llama",
    task="train",
    created_at=datetime(2026, 1, 2, tzinfo=UTC),
    finished_at=None,
    workload={
        "framework": "transformers",
        "method": "lora",
        "precision": {"name": "bf16"},
        "micro_batch_size": 4,
        "sequence_length": 2048,
    },
    layout={
        "data_parallel": 8,
        "tensor_parallel": 2,
        "pipeline_parallel": 1,
        "context_parallel": 1,
    },
    problem=None,
    environment={"gpu": "NVIDIA H200", "torch": "2.13.0"},
    peaks={"allocated_bytes": 1000, "reserved_bytes": None, "out_of_memory": False},
    prediction={"allocated_bytes": 900, "error": -0.1},
    step_time_s={"median": 0.5, "p95": 0.6},
    extrapolated=True,
    calibration_id=UUID(int=8),
    residuals={
        "allocated": StoredResidual(
            kind="training",
            predicted=900,
            interval=(890, 1010),
            after=990,
            after_interval=(980, 1005),
        ),
        "step_time": StoredResidual(
            kind="training",
            predicted=400_000_000,
            interval=None,
            after=500_000_000,
            after_interval=(450_000_000, 600_000_000),
        ),
    },
)


def parsed(body: bytes) -> list[list[str]]:
    """Return the cells of a CSV."""
    return list(csv.reader(io.StringIO(body.decode(), newline="")))


def test_a_probe_has_errors_before_and_after_calibration() -> None:
    """What calibration keeps of a measurement stands beside it."""
    row = build_row(MEASURED)

    assert (row.allocated_bytes, row.predicted_allocated_bytes) == (1000, 900)
    assert row.allocated_error == pytest.approx(-0.1)
    assert row.calibrated_allocated_error == pytest.approx(-0.01)
    assert (row.step_time_s, row.predicted_step_time_s, row.calibrated_step_time_error) == (
        0.5,
        0.4,
        0.0,
    )
    assert (row.reserved_bytes, row.reserved_error) == (None, None)
    assert (row.num_gpus, row.framework, row.precision, row.batch, row.sequence_length) == (
        16,
        "transformers",
        "bf16",
        4,
        2048,
    )
    assert (row.environment_gpu, row.torch, row.driver) == ("NVIDIA H200", "2.13.0", None)


def test_answers_stand_with_their_intervals() -> None:
    """A chart draws the band of either answer from one row; what gives no interval has none."""
    row = build_row(MEASURED)

    assert row.kind == "training"
    assert (row.predicted_allocated_low_bytes, row.predicted_allocated_high_bytes) == (890, 1010)
    assert (row.calibrated_allocated_bytes, row.calibrated_allocated_low_bytes) == (990, 980)
    assert (
        row.predicted_step_time_low_s,
        row.calibrated_step_time_s,
        row.calibrated_step_time_high_s,
    ) == (None, 0.5, 0.6)


def test_what_was_stored_beside_a_reading_counts_where_nothing_was_learnt() -> None:
    """A GPU's reserved bytes have their prediction and interval from when they were measured."""
    stored = {
        "quantity": "reserved_bytes",
        "measured": 1000,
        "predicted": 1100,
        "low": 1000,
        "high": 1200,
    }
    line = replace(
        MEASURED, peaks={"reserved_bytes": 1000}, prediction={"quantities": [stored]}, residuals={}
    )
    row = build_row(line)

    assert (row.predicted_reserved_low_bytes, row.predicted_reserved_high_bytes) == (1000, 1200)
    assert row.reserved_error == pytest.approx(0.1)
    assert (row.kind, row.calibrated_reserved_bytes) == (None, None)


def test_an_import_has_every_quantity_that_was_compared() -> None:
    """Those of an engine's log as well, and its version."""
    compared = [
        {"quantity": "device_bytes", "predicted": 110, "calibrated": 100},
        {"quantity": "kv_pool_bytes", "predicted": 30, "calibrated": None},
        {"quantity": "kv_pool_tokens", "predicted": 3, "calibrated": None},
    ]
    line = replace(
        MEASURED,
        peaks={
            "allocated_bytes": None,
            "device_bytes": 100,
            "engine": {"kv_pool_bytes": 60, "kv_pool_tokens": 6},
        },
        prediction={"allocated_bytes": None, "error": None, "quantities": compared},
        workload={
            "engine": "vllm",
            "weight_dtype": "bf16",
            "num_sequences": 3,
            "prompt_tokens": 5,
            "output_tokens": 2,
        },
        environment={"engine": "vllm", "vllm": "0.19.0"},
        residuals={},
    )
    row = build_row(line)

    assert row.device_error == pytest.approx(0.1)
    assert row.calibrated_device_error == 0.0
    assert (
        row.kv_pool_bytes,
        row.kv_pool_error,
        row.kv_pool_tokens,
        row.predicted_kv_pool_tokens,
    ) == (60, -0.5, 6, 3)
    assert (row.allocated_bytes, row.allocated_error, row.calibrated_allocated_error) == (
        None,
        None,
        None,
    )
    assert (row.framework, row.precision, row.batch, row.sequence_length) == ("vllm", "bf16", 3, 7)
    assert row.engine_version == "vllm 0.19.0"


def test_a_job_that_waits_has_a_row_as_well() -> None:
    """Nothing was found yet, and nothing is made up."""
    line = replace(
        MEASURED,
        peaks={},
        prediction={},
        step_time_s={},
        environment={},
        residuals={},
        calibration_id=None,
    )
    row = build_row(line)

    assert (
        row.allocated_bytes,
        row.allocated_error,
        row.out_of_memory,
        row.calibration,
        row.step_time_s,
    ) == (None,) * 5


def test_csv_has_the_columns_of_the_rows() -> None:
    """Names once, then a line per measurement; what is not known is empty."""
    header, first, second = parsed(
        render_csv([build_row(MEASURED)], header=COLUMNS) + render_csv([build_row(MEASURED)])
    )
    cells = dict(zip(header, first, strict=True))

    assert header == COLUMNS
    assert first == second
    assert (cells["id"], cells["allocated_bytes"], cells["reserved_bytes"]) == (
        str(MEASURED.id),
        "1000",
        "",
    )
    assert (cells["allocated_error"], cells["extrapolated"]) == ("-0.09999999999999998", "true")


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_no_text_becomes_a_formula(name: str) -> None:
    """Whatever somebody calls a model, a spreadsheet shows it; without the quote it is what it
    was.
    """
    header, first = parsed(render_csv([build_row(replace(MEASURED, model=name))], header=COLUMNS))
    cell = dict(zip(header, first, strict=True))["model"]

    assert not cell.startswith(FORMULA)
    assert cell.removeprefix("'") == name.removeprefix("'")


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx"])
def test_formulas_are_quoted(name: str) -> None:
    """Each way that a spreadsheet begins one."""
    header, first = parsed(render_csv([build_row(replace(MEASURED, model=name))], header=COLUMNS))

    assert dict(zip(header, first, strict=True))["model"] == f"'{name}"
