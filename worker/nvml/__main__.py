"""List of the GPUs that a worker can have: ``python -m worker.nvml``.

One JSON object a line: UUID and name. Nothing where there is no NVIDIA driver. Torch is not loaded.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence

from worker.nvml.gpus import Gpu, list_gpus
from worker.nvml.library import Api, NoDriverError, NvmlUnavailableError, open_nvml
from worker.nvml.visible import ALL, UnknownGpuError, list_visible_gpus, select_gpus

EXIT_UNKNOWN = 2


def main(
    arguments: Sequence[str] | None = None,
    api: Api = None,
    environ: Mapping[str, str] | None = None,
) -> int:
    """Print the selected GPUs.

    The status is 2 for a name that no GPU has, and for a driver that refuses.
    """
    parser = argparse.ArgumentParser(prog="python -m worker.nvml", description=__doc__)
    parser.add_argument("--gpus", default=ALL, metavar="all|0,1|UUID,…")
    selection = parser.parse_args(arguments).gpus
    try:
        gpus = _select(selection, api, os.environ if environ is None else environ)
    except UnknownGpuError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_UNKNOWN
    for gpu in gpus:
        sys.stdout.write(json.dumps({"uuid": gpu.uuid, "name": gpu.name}) + "\n")
    return 0


def _select(selection: str, api: Api, environ: Mapping[str, str]) -> Sequence[Gpu]:
    """Return the selected GPUs, where ``all`` may be none."""
    try:
        with open_nvml(api) as nvml:
            gpus = list_gpus(nvml)
    except NoDriverError as error:
        if selection == ALL:
            return ()
        raise UnknownGpuError(str(error)) from error
    except NvmlUnavailableError as error:
        raise UnknownGpuError(str(error)) from error
    if selection == ALL:
        return list_visible_gpus(gpus, environ)
    return select_gpus(selection, gpus, environ)


if __name__ == "__main__":
    sys.exit(main())
