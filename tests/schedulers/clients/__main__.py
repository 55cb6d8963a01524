"""Real clients through our doors: ``python -m tests.schedulers.clients ray|skypilot|dstack …``.

Each is installed once from a package index, below HEADROOM_CLIENTS_ROOT. Leaves with 1 where a
client does otherwise than Headroom answers, or refuses what Headroom renders.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.schedulers.clients.dstack import check_dstack
from tests.schedulers.clients.ray import check_ray
from tests.schedulers.clients.skypilot import check_skypilot

CHECKS: Mapping[str, Callable[[], Iterator[str]]] = {
    "ray": check_ray,
    "skypilot": check_skypilot,
    "dstack": check_dstack,
}


def main(words: Sequence[str]) -> int:
    """Print what each client does; return 1 where one of it is wrong."""
    unknown = [word for word in words if word not in CHECKS]
    if unknown:
        sys.stderr.write(f"no client {unknown[0]!r}: {', '.join(CHECKS)}\n")
        return 2
    faults = [fault for word in words or CHECKS for fault in CHECKS[word]()]
    sys.stdout.write("".join(f"WRONG {fault}\n" for fault in faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
