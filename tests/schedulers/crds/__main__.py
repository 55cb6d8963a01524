"""Rendered objects and the controller before a real API server:
``python -m tests.schedulers.crds --clones DIR``.

Needs Linux, root, debootstrap and git clones ``owner+name`` of the projects in ``definitions.py``.
HEADROOM_CRDS_ROOT is where Debian's Go and etcd are kept, and the server that they build once
(5 minutes on a core, 4 GB), ``/var/tmp/headroom-crds`` unless it says otherwise. Leaves with 1
where the server refuses what is rendered, takes what is broken, or the controller leaves an object
otherwise than it should.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from tests.schedulers.crds.answers import KEPT, capture
from tests.schedulers.crds.definitions import establish, make_stand_ins, read_definitions
from tests.schedulers.crds.loop import check_loop
from tests.schedulers.crds.objects import check_objects
from tests.schedulers.crds.server import build_root, start_server


def main() -> int:
    """Print a line a check; return 1 where one of them is wrong."""
    options = _parse()
    root = Path(os.environ.get("HEADROOM_CRDS_ROOT", "/var/tmp/headroom-crds"))  # noqa: S108 - 4 GB outside the repository
    build_root(root)
    definitions = [*read_definitions(options.clones), *make_stand_ins()]
    with (
        tempfile.TemporaryDirectory() as folder,
        start_server(root, Path(folder)) as server,
        server.connect() as client,
    ):
        plurals = establish(client, definitions)
        sys.stdout.write(f"{len(definitions)} definitions established\n")
        faults = [*check_objects(client, plurals), *check_loop(server)]
        answers = json.dumps(capture(client), indent=1, ensure_ascii=False) + "\n"
    if options.write:
        KEPT.write_text(answers)
    elif answers != KEPT.read_text():
        faults.append(f"the server answers otherwise than {KEPT.name} has it: --write")
    sys.stdout.write("".join(f"WRONG {fault}\n" for fault in faults))
    return 1 if faults else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.schedulers.crds")
    parser.add_argument(
        "--clones", type=Path, required=True, help="folder with a git clone owner+name of each"
    )
    parser.add_argument("--write", action="store_true", help="keep the server's answers")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
