# ruff: noqa: INP001 - one file, which a cluster copies to where jobs import modules from
"""Leave what PyTorch counted, for the node's epilog to send.

``import headroom_stats`` in a training script, or ``python -m headroom_stats train.py …`` in its
place. Without HEADROOM_STATS, a folder that the task prolog names, nothing happens, and nothing
that goes wrong here reaches the job.
"""

import atexit
import json
import os
import runpy
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PEAKS = ("allocated_bytes.all.peak", "reserved_bytes.all.peak", "num_ooms")


def write() -> None:
    """Write this rank's peaks and releases."""
    folder, torch = os.environ.get("HEADROOM_STATS"), sys.modules.get("torch")
    if not folder or torch is None or not torch.cuda.is_initialized():
        return
    stats = torch.cuda.memory_stats()
    rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
    document = {
        "rank": rank,
        "world_size": int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1"))),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "transformers": _find_version("transformers"),
        "peft": _find_version("peft"),
        "allocator": os.environ.get("PYTORCH_CUDA_ALLOC_CONF"),
        "memory_stats": {name: stats[name] for name in _PEAKS if name in stats},
    }
    path = Path(folder) / f"rank-{rank}.json"
    new = path.with_suffix(".new")
    new.write_text(json.dumps(document))
    new.replace(path)


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _write_quietly() -> None:
    with suppress(Exception):
        write()


atexit.register(_write_quietly)

if __name__ == "__main__" and len(sys.argv) > 1:
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
