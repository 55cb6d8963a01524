"""The recorder, of one variant: ``python -m tests.e2e.http.quick_recorder``.

It runs transformers' own code, and takes a tenth of the time.
"""

import sys

from worker.probes.architecture import __main__ as entry
from worker.probes.architecture import record

if __name__ == "__main__":
    # Whoever records loads it late, and finds this.
    for name in set(record.VARIANTS) - {"half"}:
        del record.VARIANTS[name]
    sys.exit(entry.main())
