"""Generator of the typed client: ``python -m deploy.release.client``.

It generates from the OpenAPI document, with the page of its fields; ``--write`` keeps the result.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from deploy.release.client.generating import TARGET, generate, read_contents, write
from deploy.release.field_reference import PAGE, render_page


def main() -> int:
    """Generate the client and compare it with the committed one.

    Without ``--write`` the stale modules are printed, and the status is 1 if there are any.
    """
    parser = argparse.ArgumentParser(prog="python -m deploy.release.client", description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="replace service/client/generated and docs/fields.md"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        generated = generate(Path(scratch))
        if options.write:
            write(generated)
            PAGE.write_text(render_page(), encoding="utf-8")
        current, committed = read_contents(generated), read_contents(TARGET)
    stale = sorted(
        name
        for name in current.keys() | committed.keys()
        if current.get(name) != committed.get(name)
    )
    if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != render_page():
        stale.append(f"docs/{PAGE.name}")
    for name in stale:
        sys.stdout.write(f"{name} is stale; run `python -m deploy.release.client --write`\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
