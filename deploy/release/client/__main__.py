"""``python -m deploy.release.client``: generate the typed client from the OpenAPI document; ``--write`` keeps it."""

import argparse
import sys
import tempfile
from pathlib import Path

from deploy.release.client.generating import TARGET, contents, generate, write


def main() -> int:
    """Generate; without ``--write`` say which modules differ from the kept ones, and end with 1 if any does."""
    parser = argparse.ArgumentParser(prog="python -m deploy.release.client", description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace service/client/generated")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        generated = generate(Path(scratch))
        if options.write:
            write(generated)
        made, kept = contents(generated), contents(TARGET)
    stale = sorted(name for name in made.keys() | kept.keys() if made.get(name) != kept.get(name))
    for name in stale:
        sys.stdout.write(f"{name} is stale; run `python -m deploy.release.client --write`\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
