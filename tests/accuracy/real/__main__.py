"""``python -m tests.accuracy.real``: scores answers against recorded runs on real GPUs."""

import sys

from tests.accuracy.real.bounds import score_bounds
from tests.accuracy.real.report import render_text
from tests.accuracy.real.scoring import score_real_runs

if __name__ == "__main__":
    sys.stdout.write(render_text(score_real_runs(), score_bounds()))
