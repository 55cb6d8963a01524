"""Answers that rest on one recorded run, for other recorded runs.

A row of a sweep goes the way of a measurement: stored, compared with its analytic answer, learnt.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec

from service.calibration.apply import KnownCalibration, build_corrections, get_point
from service.calibration.derive import calibrate
from service.calibration.evidence import Quantity
from service.calibration.machines import build_machines, combine_speeds
from service.calibration.pool import Group, Member
from service.catalog.prior_measurements import PriorMeasurement
from service.estimator.estimate import estimate
from service.estimator.values.corrections import SpeedRatios
from service.estimator.values.result import Detail, Estimate, Throughput
from service.jobs.readings import Peaks
from service.planner.fit.evaluator import make_evaluator
from service.usecases.learning.shipped_priors import as_evidence
from tests.accuracy.real.rows import GPU, make_recorded_plans
from tests.gpu.sweep.case import Case, Header, Row, read_lines
from tests.gpu.sweep.predict import get_device, load_case_architecture
from tests.gpu.sweep.priors import build_entry

_PLANS = make_recorded_plans()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Recorded rows of one GPU by the name of their case."""

    header: Header
    rows: dict[str, Row]

    @property
    def gpu(self) -> str:
        """The catalogue's name of the GPU."""
        return get_device(self.header.environment).name


@cache
def load_sweep(gpu: str) -> Sweep:
    """Return the sweep of an ``h100`` or an ``h200``."""
    header, rows = read_lines((GPU / f"sweep_{gpu}.jsonl").read_bytes())
    assert header is not None
    measured = {row.case.name: row for row in rows if row.measured is not None}
    return Sweep(header=header, rows=measured)


def learn_rows(sweep: Sweep, rows: Sequence[Row]) -> tuple[KnownCalibration, ...]:
    """Return what one measurement teaches: the row of a model, or those of its slices."""
    deepest = rows[-1]
    assert deepest.measured is not None
    entry = build_entry(deepest.case, deepest.measured, sweep.header, gpu=sweep.gpu)
    result: dict[str, Any] = {**entry["result"], "environment": sweep.header.environment}
    if deepest.case.layers is not None:
        result |= _build_extrapolated(sweep, rows)
    prior = PriorMeasurement(
        id=deepest.case.name,
        source="recorded",
        method="sweep",
        date=datetime(2026, 11, 22, tzinfo=UTC),
        model=entry["model"],
        config={},
        request=entry["request"],
        result=result,
    )
    learnt = as_evidence(prior, _PLANS)
    assert learnt is not None
    by_quantity = {
        quantity: [item for item in learnt[1].evidence if item.quantity is quantity]
        for quantity in Quantity
    }
    calibrations = (calibrate(evidence) for evidence in by_quantity.values() if evidence)
    return tuple(
        KnownCalibration(name=prior.id, calibration=calibration)
        for calibration in calibrations
        if calibration is not None
    )


def answer_case(sweep: Sweep, case: Case, learnt: Sequence[KnownCalibration] = ()) -> Estimate:
    """Return the answer about a case that rests on what was learnt."""
    architecture, workload = load_case_architecture(case), case.task.workload
    point = get_point(architecture, workload, case.layout)
    corrections = build_corrections(learnt, point, speeds=_find_speeds(learnt)) if learnt else None
    return estimate(
        architecture,
        workload,
        layout=case.layout,
        device=get_device(sweep.header.environment),
        corrections=corrections,
        plans=_PLANS,
        detail=Detail.REPLAYED,
    )


def _find_speeds(learnt: Sequence[KnownCalibration]) -> SpeedRatios | None:
    """Return the machine of one question that was measured on it."""
    own = [source.calibration for source in learnt if source.calibration.speeds]
    members = [
        Member(
            key=_MACHINE,
            group=Group(quantity=calibration.quantity, kind="step", environment=_MACHINE),
            calibration=calibration,
        )
        for calibration in own
    ]
    machines = build_machines(members)
    if not machines:
        return None
    (machine,) = machines.values()
    return combine_speeds(machine, [calibration.speeds for calibration in own])


_MACHINE = "recorded"


def estimate_case(sweep: Sweep, case: Case, answered: Estimate) -> Throughput:
    """Return the time of a case by its answer, with what was learnt."""
    device = get_device(sweep.header.environment)
    evaluator = make_evaluator(load_case_architecture(case), device, plans=_PLANS)
    throughput = evaluator.get_throughput(case.task.workload, case.layout, answered)
    assert throughput is not None
    return throughput


def _build_extrapolated(sweep: Sweep, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the members of a result that rests on slices.

    Allocated bytes are the analytic ones of the full model, from which slices differ by nothing.
    """
    full = msgspec.structs.replace(rows[-1].case, layers=None)
    architecture = load_case_architecture(full)
    predicted = estimate(
        architecture,
        full.task.workload,
        layout=full.layout,
        device=get_device(sweep.header.environment),
        plans=_PLANS,
    )
    instants = [
        {"name": instant.name, "allocated_bytes": instant.allocated_bytes}
        for instant in predicted.instants
    ]
    return {
        "extrapolated": True,
        "instants": instants,
        "peaks": msgspec.to_builtins(Peaks(allocated_bytes=predicted.allocated_bytes)),
        "probes": [_build_probe(sweep, row) for row in rows],
        "step_time_s": None,
    }


def _build_probe(sweep: Sweep, row: Row) -> dict[str, Any]:
    measured = row.measured
    assert measured is not None
    entry = build_entry(row.case, measured, sweep.header, gpu=sweep.gpu)
    (probe,) = entry["result"]["probes"]
    return {
        **probe,
        "num_layers": len(row.case.layers or ()),
        "layers": row.case.layers,
        "reserved_bytes": measured.reserved_bytes,
        "device_bytes": measured.device_bytes,
        "context_bytes": measured.context_bytes,
    }
