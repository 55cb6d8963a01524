"""Measurement of catalogue models on fake tensors.

Run as ``python -m tests.accuracy.priors [--write] [--ship] [--only MODEL]``. Prints the answer
next to each measurement. With ``--write`` the readings go to ``tests/data/probes/trace.json``,
where the accuracy after calibration is measured. With ``--ship`` the curves that the answer misses
at some size go from there into ``service/catalog/priors``, from where they correct it; there is no
such folder where it misses none. Alone, it needs no torch and takes seconds.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from service.calibration.evidence import tolerance
from service.catalog.models import load_config, resolve_model
from service.catalog.prior_measurements import read_priors
from service.estimator.cache import PlanCache
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.layout import Layout
from service.jobs.contract import ModelSource, ProbeDevice, ProbeRequest, ProbeResult, make_task
from service.usecases.learning.shipped_priors import as_evidence
from tests.accuracy.priors.questions import ProbeQuestion, iter_questions

ROOT = Path(__file__).resolve().parents[3]
READINGS = ROOT / "tests" / "data" / "probes" / "trace.json"
SHIPPED = ROOT / "service" / "catalog" / "priors" / "trace.json"
SOURCE = "the project's own trace probe"
METHOD = (
    "python -m tests.accuracy.priors: the real model code of transformers on fake tensors, every "
    "layer, the second step"
)
DEADLINE_S = 600.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.priors", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the readings")
    parser.add_argument(
        "--ship",
        action="store_true",
        help="write what is to be shipped of the readings; alone, measure nothing",
    )
    parser.add_argument("--only", help="measure this model alone")
    options = parser.parse_args(arguments)
    if options.write or not options.ship:
        selected = [
            question for question in iter_questions() if options.only in {None, question.model}
        ]
        measured = list(_measure_all(selected))
        if options.write and measured:
            _write(READINGS, dict(measured[-1][1].environment), [entry for entry, _ in measured])
    if options.ship:
        _ship()
    return 0


def _measure_all(selected: Sequence[ProbeQuestion]) -> Iterator[tuple[dict[str, Any], ProbeResult]]:
    """Yield each measurement as an entry, and its result."""
    measure = import_module("worker.probes.measure").measure
    for question in selected:
        config = load_config(resolve_model(question.model))
        source = ModelSource(
            architecture=architecture_from_config(config).describe(),
            hf_config=dict(config),
            name=question.model,
        )
        request = ProbeRequest(
            model=source,
            task=make_task(question.workload),
            layout=Layout(),
            device=ProbeDevice.TRACE,
            full_depth=True,
            deadline_s=DEADLINE_S,
        )
        result: ProbeResult = measure(request, lambda _line: None)
        sys.stdout.write(f"{question.model} {question.size}: {result.peaks.allocated_bytes:,} B\n")
        sys.stdout.flush()
        yield _build_entry(question, result), result


def _ship() -> None:
    """Write the curves that the analytic answer misses beyond the tolerance.

    A curve is missed where one of its sizes is.
    """
    document = json.loads(READINGS.read_bytes())
    plans, curves, missed = PlanCache(), [], set()
    for entry, prior in zip(
        document["measurements"], read_priors("trace", READINGS.read_bytes()), strict=True
    ):
        evidence_of_prior = as_evidence(prior, plans)
        if evidence_of_prior is None:
            continue
        curve, evidence_set = evidence_of_prior
        sample = evidence_set.evidence[0]
        curves.append((curve, entry))
        difference = sample.peak() - sample.measured_peak
        point = f"{sample.point.micro_batch_size} x {sample.point.sequence_length}"
        sys.stdout.write(
            f"{difference / sample.measured_peak:+.4%} {difference:+,.0f} B  {prior.model} "
            f"{point}\n"
        )
        if abs(difference) > tolerance(sample.measured_peak):
            missed.add(curve)
    shipped = [entry for curve, entry in curves if curve in missed]
    if shipped:
        _write(SHIPPED, document["environment"], shipped, date=document["date"])
    else:
        SHIPPED.unlink(missing_ok=True)
    sys.stdout.write(
        f"{len(missed)} curves are missed; {len(shipped)} of {len(curves)} measurements are "
        "shipped\n"
    )


def _build_entry(question: ProbeQuestion, measured: ProbeResult) -> dict[str, Any]:
    request = {
        "task": msgspec.to_builtins(make_task(question.workload)),
        "layout": msgspec.to_builtins(Layout()),
        "device": ProbeDevice.TRACE.value,
        "full_depth": True,
    }
    result = {
        "peaks": {"allocated_bytes": measured.peaks.allocated_bytes},
        "instants": [
            {"name": instant.name, "allocated_bytes": instant.allocated_bytes}
            for instant in measured.instants
        ],
        "probes": [],
        "extrapolated": measured.extrapolated,
        "transferable": measured.transferable,
        "steady_bytes": measured.steady_bytes,
    }
    return {"model": question.model, "request": request, "result": result}


def _write(
    path: Path,
    environment: dict[str, Any],
    entries: Sequence[dict[str, Any]],
    *,
    date: str | None = None,
) -> None:
    """Write a document of shipped measurements, one a line.

    ``date`` is when they were made, today by default.
    """
    measured_on = date or datetime.now(UTC).date().isoformat()
    head = {
        "source": SOURCE,
        "how": METHOD,
        "date": measured_on,
        "environment": _select_releases(environment),
    }
    opening = msgspec.json.encode(head).decode()[:-1]
    lines = ",\n".join(msgspec.json.encode(entry).decode() for entry in entries)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{opening},"measurements":[\n{lines}\n]}}\n')


def _select_releases(environment: dict[str, Any]) -> dict[str, Any]:
    """Select the releases that decide the bytes.

    The machine does not decide them.
    """
    return {
        name: environment[name]
        for name in ("torch", "transformers", "peft")
        if environment.get(name) is not None
    }


if __name__ == "__main__":
    sys.exit(main())
