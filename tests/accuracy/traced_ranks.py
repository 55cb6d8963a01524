"""Runs the ranks that were traced independently on our own trace: ``python -m tests.accuracy.traced_ranks [CASE ...]``.

One line a case: the peaks of the three phases and the error of the highest, in bytes and in per cent.
"""

import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from service.catalog.models import load_config, resolve_model
from service.estimator.units import format_bytes
from service.jobs.contract import ModelSource, ProbeDevice, ProbeRequest, ProbeResult, task_of
from tests.accuracy.cases import StepCase, rank_cases
from tests.accuracy.contract import NotInContractError, question_of_rank
from worker.probes.measure import measure

_DEADLINE_S = 600.0
_PHASES: Mapping[str, tuple[str, ...]] = {
    "forward and backward": ("forward", "loss", "backward"),
    "optimizer": ("optimizer_step",),
}
"""Instants by traced phases: the tracer's forward and backward both contain the loss, and an instant of ours is its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One case: traced and our own peak of each phase, in bytes."""

    case: StepCase
    traced: Mapping[str, int]
    found: Mapping[str, int]

    @property
    def off_bytes(self) -> int:
        """How far our highest peak is from the traced one."""
        return max(self.found.values()) - max(self.traced.values())

    @property
    def error(self) -> float:
        """The same as a part of the traced peak."""
        return self.off_bytes / max(self.traced.values())


def score(case: StepCase) -> Score:
    """Trace the rank of a case and compare; raises NotInContractError for options without a word."""
    instants = {instant.name: instant.allocated_bytes for instant in trace(case).instants}
    fitting = ("forward", "backward")
    return Score(
        case=case,
        traced={
            "forward and backward": max(case.phases[name].peak for name in fitting),
            "optimizer": case.phases["optimizer"].peak,
        },
        found={phase: max(instants[name] for name in names) for phase, names in _PHASES.items()},
    )


def trace(case: StepCase) -> ProbeResult:
    """Run a case at full depth on device ``trace``."""
    question = question_of_rank(case)
    config = dict(load_config(resolve_model(case.model)))
    config["num_hidden_layers"] = case.options.get("layers", config["num_hidden_layers"])
    request = ProbeRequest(
        model=ModelSource(architecture={}, hf_config=config),
        task=task_of(question.workload),
        layout=question.layout,
        device=ProbeDevice.TRACE,
        full_depth=True,
        deadline_s=_DEADLINE_S,
    )
    return measure(request, lambda _line: None)


def main(names: list[str]) -> int:
    """Print the table of all cases, or of those that are named; 1 when one is off by more than 0.2 per cent."""
    warnings.simplefilter("ignore")
    worst = 0.0
    for case in rank_cases():
        if names and case.id not in names:
            continue
        try:
            scored = score(case)
        except NotInContractError as error:
            sys.stdout.write(f"{case.id:8} left out: {error}\n")
            continue
        worst = max(worst, abs(scored.error))
        sys.stdout.write(_line(scored))
    sys.stdout.write(f"worst {worst:.5%}\n")
    return int(worst > 0.002)


def _line(scored: Score) -> str:
    options = scored.case.options
    ranks = f"{options['dp']} x {options.get('tp', 1)}"
    peaks = ", ".join(f"{phase} {format_bytes(found)}" for phase, found in scored.found.items())
    return f"{scored.case.id:8} {scored.case.model:14} {ranks:8} {peaks:60} {scored.off_bytes:+7} B {scored.error:+.5%}\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
