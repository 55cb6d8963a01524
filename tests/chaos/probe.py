"""A probe that measures nothing: ``python -m tests.chaos.probe``.

Its answer is always right. It speaks the protocol of service.jobs.contract by hand: an interpreter
that imports nothing starts in a few milliseconds, and two hundred jobs then fit into a minute.
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
    """Follow the request's orders, then answer."""
    orders = json.load(sys.stdin)["model"]["hf_config"]["chaos"]
    number = int(orders["number"])
    if orders["deaf"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _emit({"type": "progress", "phase": "deaf", "done": 0, "total": 1, "fraction": 0.0})
        hashlib.pbkdf2_hmac("sha256", b"", b"", _ROUNDS)
    for step in range(STEPS):
        _emit(
            {
                "type": "progress",
                "phase": f"step {step}",
                "done": step,
                "total": STEPS,
                "fraction": step / STEPS,
            },
        )
        if step < NUM_SAMPLES:
            _emit(
                {
                    "type": "sample",
                    "t_s": float(step),
                    "kind": "process_rss",
                    "bytes": sample_bytes(number, step),
                },
            )
        time.sleep(float(orders["work_s"]) / STEPS)
    while orders["hold"] is not None and Path(orders["hold"]).exists():
        time.sleep(0.01)
    _emit(_build_result(number))


def _build_result(number: int) -> dict[str, object]:
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


def _emit(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
