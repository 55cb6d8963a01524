"""A recorder that does what its config's script says: ``python -m tests.e2e.kill.fake_recorder``.

Steps: ``{"touch": path}`` (the file then holds the process id), ``{"wait_for": path}``,
``{"refuse": message}``, ``{"exit": status}``. It counts the weights first, and answers with the
recording of a small helium after the last step.
"""

import json
import os
import sys
import time
from pathlib import Path

from service.runtime.line_process import die_with_parent
from tests.recordings import make_document


def main() -> int:
    """Play the script."""
    request = json.loads(sys.stdin.buffer.read())
    die_with_parent(request["parent"])
    document = make_document()
    weights = {
        "total": 516_288,
        "by_kind": {},
        "transformers": document["transformers"],
        "torch": document["torch"],
        "document": {**document, "passes": {}},
    }
    _write("static", **weights)
    if request["weights_only"]:
        return 0
    _write("progress", fraction=0.5, phase="recording half")
    for step in request["config"].get("script", ()):
        match step:
            case {"touch": str() as path}:
                # Whoever waits for the file reads a whole number from it.
                Path(f"{path}.new").write_text(str(os.getpid()))
                Path(f"{path}.new").rename(path)
            case {"wait_for": str() as path}:
                while not Path(path).exists():
                    time.sleep(0.01)
            case {"refuse": str() as message}:
                _write("refused", message=message)
                return 0
            case {"exit": int() as status}:
                return status
            case _:
                sys.exit(f"a step that this recorder does not know: {step}")
    _write("recorded", document={**document, "config": request["config"]})
    return 0


def _write(kind: str, **message: object) -> None:
    sys.stdout.write(json.dumps({"kind": kind, **message}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
