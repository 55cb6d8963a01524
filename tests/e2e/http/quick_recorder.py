"""The recorder, of one variant, as a fork of a process that has torch loaded.

It runs transformers' own code, and takes a tenth of the time.
"""

from unittest import mock

from worker.probes.architecture import __main__ as entry
from worker.probes.architecture.listening import variants


def main() -> int:
    """Record."""
    # Whoever records loads it late, and finds this.
    for name in set(variants.VARIANTS) - {"half"}:
        del variants.VARIANTS[name]
    # What stands for it ends with the worker, and it with that.
    with mock.patch.object(entry, "die_with_parent"):
        return entry.main()
