"""``python -m tests.accuracy.times [--fit]``: every measured time beside its prediction."""

import argparse
import sys

from tests.accuracy.times.fitting import fit_rates, leave_models_out
from tests.accuracy.times.report import format_text
from tests.accuracy.times.rows import read_timed_rows
from tests.accuracy.times.scoring import score_rows


def main() -> None:
    """Print the scores; with ``--fit`` the fitted rates, and the scores of models left out."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.accuracy.times", description="Score times that GPUs took."
    )
    parser.add_argument("--fit", action="store_true", help="fit the rates anew: minutes")
    arguments = parser.parse_args()
    rows = read_timed_rows()
    scores = score_rows(rows)
    for score in scores:
        sys.stdout.write(
            f"{score.file} {score.quantity:8} {score.name:66} {1000 * score.predicted_s:8.1f} ms "
            f"for {1000 * score.measured_s:8.1f} ms {score.error:+7.1%}\n"
        )
    sys.stdout.write(format_text(scores))
    if arguments.fit:
        fitted = fit_rates(rows)
        sys.stdout.write("".join(f"{name} {value:.3g}\n" for name, value in fitted.items()))
        sys.stdout.write(f"models left out, {format_text(leave_models_out(rows))}")


if __name__ == "__main__":
    main()
