"""A guard for CI: refuse a training configuration that does not fit its GPUs, and say what would
help.

python ci_guard.py configs/*.json

Each file holds one question as ``POST /v1/fit`` takes it. The server is HEADROOM_URL's, the key
HEADROOM_API_KEY's (scope ``read``). Exit codes: 0 everything fits, 1 something does not, 2 a
question is wrong or nobody answers.
"""

import json
import sys
from pathlib import Path

from headroom import Headroom, HeadroomError, InvalidRequestError, ProblemError
from headroom.models import FitAnswer

GIB = 2**30


def main(paths: list[str]) -> int:
    """Ask about every file, print one line for each, and return the worst."""
    if not paths:
        print(__doc__)
        return 2
    try:
        with Headroom() as headroom:
            return max(judged(headroom, path) for path in paths)
    except ValueError as error:
        print(error)
        return 2


def judged(headroom: Headroom, path: str) -> int:
    """Judge one configuration; what is wrong with the question, or with the way to the server, is
    told.
    """
    try:
        return judge(headroom, path)
    except InvalidRequestError as error:
        print(f"{path}: {'; '.join(value.message for value in error.errors) or error.detail}")
    except (HeadroomError, OSError, ValueError) as error:
        print(f"{path}: {error}")
    return 2


def judge(headroom: Headroom, path: str) -> int:
    """Print what becomes of one configuration; 1 where it does not fit for sure."""
    (answer,) = headroom.fit_many([json.loads(Path(path).read_text())], detail="full")
    if isinstance(answer, ProblemError):
        raise answer
    peak = (
        f"{answer.per_gpu.device_bytes / GIB:.1f} GiB of {answer.usable_bytes / GIB:.1f} GiB at "
        f"{answer.per_gpu.peak_instant}"
    )
    print(f"{path}: {answer.verdict}, {peak}")
    if answer.verdict == "fits":
        return 0
    show_remedies(answer)
    return 1


def show_remedies(answer: FitAnswer) -> None:
    """Print the changes with which it would fit."""
    for remedy in answer.remedies:
        if remedy.verdict == "fits":
            print(
                f"  would fit with {json.dumps(remedy.change.to_dict())}, saving "
                f"{remedy.saves_bytes / GIB:.1f} GiB"
            )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
