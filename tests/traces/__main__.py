"""Traces anew whatever tests keep of traces: ``python -m tests.traces [TESTS ...]``.

It is run after a change of the code that traces (``worker/probes``), of a question or of a library.
The traces of tests that are named are added to the others.
"""

import sys

import pytest

USERS = (
    "tests/accuracy/test_differential.py",
    "tests/accuracy/written",
    "tests/unit/probes/architecture/test_gathered.py",
    "tests/unit/probes/architecture/test_pieces.py",
    "tests/unit/probes/architecture/test_proofs.py",
    "tests/unit/probes/architecture/test_recordings.py",
    "tests/unit/probes/ranks",
    "tests/unit/probes/test_families.py",
    "tests/unit/probes/test_measure_recorded.py",
    "tests/unit/probes/test_slices_traced.py",
    "tests/unit/probes/trace/test_speed.py",
    "tests/unit/probes/trace/test_truth.py",
)
"""Where tests ask for kept traces."""


def main(tests: list[str]) -> int:
    """Run tests that use kept traces, and keep what they find."""
    asked = ["--adds-traces", *tests] if tests else list(USERS)
    return int(pytest.main(["-p", "tests.traces.writing", "-q", "--no-header", *asked]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
