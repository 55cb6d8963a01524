"""``python -m tests.e2e.contract``: Schemathesis at length, over several seeds, with an admin's key
and without any.
"""

import argparse
import sys

from tests.e2e.contract.running import explore
from tests.e2e.contract.serving import guarded_server


def main() -> int:
    """Run every seed against a server of its own; 0 when nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.contract", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument(
        "--examples", type=int, default=30, help="generated cases per operation (default 30)"
    )
    options = parser.parse_args()
    is_clean = True
    for seed in options.seeds:
        for name in ("an admin's key", "no key"):
            with guarded_server() as (address, key):
                outcome = explore(
                    address,
                    key=key if name != "no key" else None,
                    seed=seed,
                    examples=options.examples,
                )
            is_clean &= outcome.is_clean
            sys.stdout.write(f"seed {seed}, {name}\n{outcome.report}\n")
            sys.stdout.flush()
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
