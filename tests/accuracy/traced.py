"""Runs the cases that were traced independently on our own trace: ``python -m tests.accuracy.traced
[CASE or MODEL ...]``.

One line a case: the highest bytes of each phase and how far they are off. The independent tracer
ran silu's backward as ATen's composite, where CUDA has a kernel that needs nothing beside its
output; the same is assumed here, and ``--cuda`` leaves it out.
"""

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import torch
from transformers import logging

from service.catalog.models import load_config, resolve_model
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.workload import ServeWorkload
from service.probing.plan import Point, ProbeQuestion, get_target_point
from service.probing.refusal import Refusal
from tests.accuracy import contract
from tests.accuracy.cases import ServingCase, StepCase, rank_cases, serving_cases, training_cases
from tests.accuracy.contract import (
    NotInContractError,
    question_of_rank,
    question_of_serving,
    question_of_step,
)
from worker.probes.measure import make_probe_setup
from worker.probes.run.backend import ProbeSetup
from worker.probes.run.extrapolate import get_instant
from worker.probes.run.session import compute_highest, select_steady_stretches
from worker.probes.trace.cuda_kernels import SCRATCH
from worker.probes.trace.ledger import Ledger, compute_stretches
from worker.probes.trace.run import run_traced

Case = StepCase | ServingCase
_INNER_PRODUCTS = 5
"""Tensors that ``grad * (s * (1 + x * (1 - s)))`` holds until it is done, s = sigmoid(x) (ATen's
``math_silu_backward``).
"""
_AFTER_LOSS = "loss/gradient"
_PHASES = {
    "forward": "forward",
    "loss": "forward",
    "backward": "backward",
    "optimizer_step": "optimizer",
}
_PASSES = {"prefill": "prefill", "growing": "decode", "decode": "decode"}
LIMIT = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One case: bytes by phase, as they were traced independently and by us."""

    case: Case
    traced: Mapping[str, int]
    found: Mapping[str, int]

    @property
    def error(self) -> float:
        """How far our highest bytes are from the traced ones, as a part of these."""
        return max(self.found.values()) / max(self.traced.values()) - 1


def score(case: Case, *, composite_silu: bool = True) -> Score:
    """Trace a case in full and compare; raises NotInContractError and Refusal."""
    return compare(case, trace_peaks(*prepare_run(case), composite_silu=composite_silu))


def compare(case: Case, found: Mapping[str, int]) -> Score:
    """Compare a case with what was found."""
    if isinstance(case, ServingCase):
        traced = {"prefill": case.prefill_bytes, "decode": case.decode_bytes}
    else:
        traced = {name: phase.peak for name, phase in case.phases.items()}
    return Score(case=case, traced=traced, found=found)


def prepare_run(case: Case) -> tuple[ProbeSetup, Point]:
    """Return how a case is run, cut to the layers that were traced."""
    config = {
        name: word
        for name, word in load_config(resolve_model(case.model)).items()
        if name != "quantization_config"
    }
    asked = _asked(case)
    question = ProbeQuestion(
        architecture=architecture_from_config(config),
        workload=asked.workload,
        layout=asked.layout,
        full_depth=True,
        deadline_s=600.0,
    )
    layers = case.options.get("layers", question.architecture.num_hidden_layers)
    point = replace(get_target_point(question), layers=tuple(range(layers)))
    return make_probe_setup(question, config, 0), point


def trace_peaks(setup: ProbeSetup, point: Point, *, composite_silu: bool = True) -> dict[str, int]:
    """Return the highest live bytes by traced phase, of a step, or of a prefill and the tokens
    after it.
    """
    ledger = _run(setup, point, composite_silu=composite_silu)
    if isinstance(setup.workload, ServeWorkload):
        passes = _read_passes(ledger)
        return passes if setup.workload.output_tokens else {"prefill": passes["prefill"]}
    return _read_phases(ledger)


def _run(setup: ProbeSetup, point: Point, *, composite_silu: bool) -> Ledger:
    scratch = (
        {**SCRATCH, torch.ops.aten.silu_backward.default: _inner_products}
        if composite_silu
        else SCRATCH
    )
    return run_traced(setup, point, on_step=lambda _step: None, scratch=scratch).ledger


def _read_phases(ledger: Ledger) -> dict[str, int]:
    steady = select_steady_stretches(compute_stretches(ledger, ledger.live()))
    return _phases(compute_highest(steady, lambda stretch: stretch.live_peak))


def _read_passes(ledger: Ledger) -> dict[str, int]:
    stretches = compute_stretches(ledger, ledger.live())
    return _passes(compute_highest(stretches, lambda stretch: stretch.live_peak))


def _asked(case: Case) -> contract.Question:
    if isinstance(case, ServingCase):
        return question_of_serving(case)
    return question_of_rank(case) if "dp" in case.options else question_of_step(case)


def _inner_products(gradient: torch.Tensor, *_: object) -> Sequence[int]:
    return [prod(gradient.shape) * gradient.element_size()] * _INNER_PRODUCTS


def _phases(peaks: Mapping[str, int]) -> dict[str, int]:
    """Return the highest bytes by traced phase: there the loss is a part of forward, and its
    gradient one of backward.
    """
    found: dict[str, int] = {}
    for name, num_bytes in peaks.items():
        phase = "backward" if name == _AFTER_LOSS else _PHASES[get_instant(name)]
        found[phase] = max(found.get(phase, 0), num_bytes)
    return found


def _passes(peaks: Mapping[str, int]) -> dict[str, int]:
    """Return the highest bytes of prefill and of all tokens after it, of which a measurement's
    decode is the last.
    """
    found = {"prefill": 0, "decode": 0}
    for name, num_bytes in peaks.items():
        if (traced := _PASSES.get(get_instant(name))) is not None:
            found[traced] = max(found[traced], num_bytes)
    return found


def main(arguments: list[str]) -> int:
    """Print the table of all cases, or of those that are named; 1 when one is off by more than 0.1
    per cent.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.traced", description=__doc__)
    parser.add_argument("names", nargs="*", help="cases or models, all when none is named")
    parser.add_argument("--cuda", action="store_true", help="run silu's backward as CUDA's kernel")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    left_out: Counter[str] = Counter()
    errors: list[float] = []
    for case in _chosen(options.names):
        try:
            scored = score(case, composite_silu=not options.cuda)
        except (NotInContractError, Refusal) as error:
            left_out[str(error)] += 1
            continue
        errors.append(abs(scored.error))
        sys.stdout.write(_line(scored))
        sys.stdout.flush()
    for reason, count in left_out.most_common():
        sys.stdout.write(f"left out {count}: {reason}\n")
    equal = sum(error == 0 for error in errors)
    within = sum(error <= LIMIT for error in errors)
    sys.stdout.write(
        f"{len(errors)} cases, {equal} equal to the byte, {within} within {LIMIT:.1%}, worst "
        f"{max(errors):.4%}\n"
    )
    return int(within < len(errors))


def _chosen(names: Sequence[str]) -> Iterator[Case]:
    cases: list[Case] = [*training_cases(), *rank_cases(), *serving_cases()]
    for case in cases:
        if not names or {case.id, case.model} & set(names):
            yield case


def _line(scored: Score) -> str:
    off = ", ".join(
        f"{phase} {scored.found[phase] - traced:+d} B" for phase, traced in scored.traced.items()
    )
    return (
        f"{scored.case.id:12} {scored.case.model:24} {max(scored.found.values()):>15} B "
        f"{scored.error:+.4%}  {off}\n"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
