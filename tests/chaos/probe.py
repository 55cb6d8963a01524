"""A probe that measures nothing and is always right: ``python -m tests.chaos.probe``.

It speaks the protocol of service.jobs.contract by hand: an interpreter that imports nothing starts in a few milliseconds,
and two hundred jobs then fit into a minute.
"""

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

from tests.chaos.expected import NUM_SAMPLES, allocated_bytes, sample_bytes

STEPS = 4
_INSTANTS = ("forward", "loss", "backward", "optimizer_step")
_ROUNDS = 1 << 26
"""Of a hash: one C call of many seconds, which no Python signal handler interrupts."""


def main() -> None:
    """Work as the request's orders say, then answer."""
    orders = json.load(sys.stdin)["model"]["hf_config"]["chaos"]
    number = int(orders["number"])
    if orders["deaf"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _say({"type": "progress", "phase": "deaf", "done": 0, "total": 1, "fraction": 0.0})
        hashlib.pbkdf2_hmac("sha256", b"", b"", _ROUNDS)
    for step in range(STEPS):
        _say({"type": "progress", "phase": f"step {step}", "done": step, "total": STEPS, "fraction": step / STEPS})
        if step < NUM_SAMPLES:
            _say({"type": "sample", "t_s": float(step), "kind": "process_rss", "bytes": sample_bytes(number, step)})
        time.sleep(float(orders["work_s"]) / STEPS)
    while orders["hold"] is not None and Path(orders["hold"]).exists():
        time.sleep(0.01)
    _say(_result(number))


def _result(number: int) -> dict[str, object]:
    size = allocated_bytes(number)
    instants = [{"name": name, "allocated_bytes": size} for name in _INSTANTS]
    ran = {"num_layers": 2, "micro_batch_size": 1, "sequence_length": 8, "instants": instants}
    return {
        "type": "result",
        "environment": {"probe": "chaos", "process": os.getpid()},
        "peaks": {"allocated_bytes": size},
        "instants": instants,
        "probes": [ran],
        "extrapolated": False,
        "transferable": False,
    }


def _say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
