"""Scores of our traces against independent ones, whose runs are kept."""

import json

from tests.accuracy.traced import Case, Score, compare, prepare_run, trace_peaks
from tests.traces.store import PHASES


def score_kept(case: Case) -> Score:
    """Score a case; raises NotInContractError and Refusal."""
    setup, point = prepare_run(case)

    def trace() -> str:
        return json.dumps(trace_peaks(setup, point))

    return compare(case, json.loads(PHASES.resolve((setup, point), trace)))
