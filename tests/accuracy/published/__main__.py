"""``python -m tests.accuracy.published [CLASS …]``: scores published readings and prints the table with the worst of each."""

import sys
from collections import Counter
from collections.abc import Sequence

from service.estimator.units import GIB
from tests.accuracy.published.rows import PublishedCase, published_cases
from tests.accuracy.published.scoring import PublishedScore, PublishedScores, score_published
from tests.accuracy.published.summary import PublishedSummary, labels, summaries, weighted_quantile, worst
from tests.accuracy.published.times import score_times

_HEADINGS = f"{'class':10} {'quantity':26} cases groups {'median':>9} {'p90':>9} {'bias':>9} under cover"
_NUM_WORST = 5


def text(found: PublishedScores) -> str:
    """Return the table, the worst cases of each line with their components, the fit labels and the refusals."""
    lines = [_HEADINGS]
    for line in summaries(found):
        lines.append(_row(line))
        lines += [f"    {_case(score, line)}" for score in worst(found, line, _NUM_WORST)]
    counted = labels(found.labels)
    lines.append(
        f"fit labels: {counted.num_runs} runs, {counted.num_out_of_memory} out of memory; {counted.false_fits} false fits, "
        f"{counted.false_refusals} false refusals, {counted.num_tight} tight"
    )
    lines += [f"  refused {count:4}  {scores_as}: {reason}" for (scores_as, reason), count in found.refusals.most_common()]
    return "\n".join(lines) + "\n"


def _row(line: PublishedSummary) -> str:
    cover = "" if line.coverage is None else f"{line.coverage:.2f}"
    figures = " ".join(f"{_figure(value, line.unit):>9}" for value in (line.median, line.p90, line.bias))
    return (
        f"{line.scores_as:10} {line.quantity:26} {line.num_cases:5} {line.num_groups:6} {figures} {line.num_under:5} {cover:>5}"
    )


def _figure(value: float, unit: str) -> str:
    return f"{value:.2%}" if unit == "%" else f"{value:,.0f} MiB"


def _case(score: PublishedScore, line: PublishedSummary) -> str:
    off = f"{score.error:+.2%}" if line.unit == "%" else f"{score.difference / 2**20:+,.0f} MiB"
    parts = ", ".join(f"{name} {value / GIB:.2f}" for name, value in score.components)
    return f"{off:>9} {score.case}: {score.predicted:,.0f} against {score.low:,.0f} to {score.high:,.0f} ({parts})"


def times_text(cases: Sequence[PublishedCase]) -> str:
    """Return a line per source family for the times of steps and generations, with the worst of each."""
    scores, refusals = score_times(cases)
    lines = [f"{'times':10} {'family':26} cases groups {'median':>9} {'p90':>9} {'bias':>9}"]
    for family in sorted({score.family for score in scores}):
        found = [score for score in scores if score.family == family]
        weights = Counter(score.group for score in found)
        sized = [(abs(score.error), 1 / weights[score.group]) for score in found]
        bias = sum(score.error / weights[score.group] for score in found) / len(weights)
        figures = " ".join(f"{value:>9.2%}" for value in (weighted_quantile(sized, 0.5), weighted_quantile(sized, 0.9), bias))
        lines.append(f"{'':10} {family:26} {len(found):5} {len(weights):6} {figures}")
        furthest = sorted(found, key=lambda score: -abs(score.error))[:_NUM_WORST]
        lines += [f"    {far.error:+9.2%} {far.case}: {far.predicted:.4g} s against {far.published:.4g} s" for far in furthest]
    lines += [f"  refused {count:4}  {reason}" for reason, count in refusals.most_common()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Score the classes that are named, or all."""
    wanted = set(sys.argv[1:])
    cases = [case for case in published_cases() if not wanted or case.scores_as in wanted]
    sys.stdout.write(text(score_published(cases)))
    sys.stdout.write(times_text(cases))


if __name__ == "__main__":
    main()
