"""Searches for wrong bytes: ``python -m tests.accuracy.search --seed 1 --cases 200 [MODEL ...]``.

Questions are drawn at random (models of the catalogue cut to a few layers, small configs with
unusual fields), answered by the estimator and traced by our own probe. Each that differs is shrunk
to the simplest that still does, and printed. Another is drawn in the place of a question that the
estimator refuses; refusals are counted by reason at the end. No test runs it.
"""

import argparse
import sys
import time
import warnings
from collections import Counter
from random import Random

from transformers import logging

from service.estimator.values.errors import EstimatorError
from tests.accuracy.search.comparing import Outcome, compare
from tests.accuracy.search.drawing import draw
from tests.accuracy.search.estimating import estimate_peaks
from tests.accuracy.search.questions import Question, shrink
from tests.accuracy.search.widening import widen

MAX_DRAWS = 30
"""Questions drawn for one that is legal: of models that take few of the options most are not."""


def main(arguments: list[str]) -> int:
    """Ask as many questions as are told; 1 where some differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.search", description=__doc__)
    parser.add_argument("models", nargs="*", help="model types and models, all when none is named")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--published", type=float, default=0.5, help="part on published models")
    parser.add_argument("--wide", type=float, default=0.0, help="part with what no probe runs")
    parser.add_argument("--tries", type=int, default=12, help="traces to shrink one difference")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    random = Random(options.seed)  # noqa: S311 - the same seed asks the same questions
    refusals, counts = Counter[str](), Counter[str]()
    began = time.monotonic()
    for _ in range(options.cases):
        question, refused = _draw_legal(random, options)
        refusals.update(refused)
        outcome = compare(question)
        if outcome.refusal:
            refusals[f"{question.model}: {outcome.refusal}"] += 1
        counts["refused" if outcome.refusal else "differ" if outcome.differences else "equal"] += 1
        if outcome.differences:
            print_outcome("drawn", outcome)
            print_outcome("least", compare(_shrink(outcome, options.tries)))
    for reason, count in sorted(refusals.items()):
        sys.stdout.write(f"{count:4} {reason}\n")
    told = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    sys.stdout.write(f"{options.cases} questions in {time.monotonic() - began:.0f} s: {told}\n")
    return int(bool(counts["differ"]))


def _draw_legal(random: Random, options: argparse.Namespace) -> tuple[Question, Counter[str]]:
    """Return a question that the estimator answers, and why it refused those before it."""
    refusals = Counter[str]()
    question = _draw(random, options)
    while refusals.total() < MAX_DRAWS:
        try:
            estimate_peaks(question)
        except EstimatorError as error:
            refusals[f"{question.model}: estimator: {error}"] += 1
            question = _draw(random, options)
        else:
            break
    return question, refusals


def _draw(random: Random, options: argparse.Namespace) -> Question:
    """Return one question, with wide settings as often as the options say."""
    question = draw(random, published=options.published, models=options.models)
    if options.wide and random.random() < options.wide:
        return widen(random, question)
    return question


def _shrink(outcome: Outcome, tries: int) -> Question:
    """Return the simplest question that is wrong in a phase that this one is wrong in."""
    phases = set(outcome.differences)

    def differs(question: Question) -> bool:
        found = compare(question)
        return not found.refusal and bool(phases & set(found.differences))

    return shrink(outcome.question, differs, tries=tries)


def print_outcome(kind: str, outcome: Outcome) -> None:
    """Write one line."""
    off = ", ".join(
        f"{name} {value:+d} of {outcome.traced[name]}"
        for name, value in outcome.differences.items()
    )
    sys.stdout.write(f"{kind} {outcome.error:+.4%} {outcome.question}: {off}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
