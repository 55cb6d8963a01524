"""The probe of tests: the real one, at the priority of whoever waits for it.

A nice one gets a tenth of a processor that tests keep busy, and its servers wait for minutes.
"""

from worker.probes import __main__ as entry
from worker.probes import niceness


def main() -> int:
    """Answer the request on stdin."""
    niceness.NICE = 0
    return entry.main()
