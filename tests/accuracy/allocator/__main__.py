"""Compares recorded loops with the replay: ``python -m tests.accuracy.allocator [LOOP ...]``.

One line a loop, named by its name or by its file: reserved bytes of the replay and of the GPU, and
the first request that differs, with the operation and the module that made it.
"""

import argparse
import sys
from collections.abc import Sequence
from statistics import median

from service.estimator.values.units import MIB
from tests.accuracy.allocator.comparison import LEAST_BYTES, Comparison, compare
from tests.accuracy.allocator.recorded import list_loops, load_loop


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each training loop, and how far off all are."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.allocator", description=__doc__)
    parser.add_argument("loops", nargs="*", metavar="LOOP", help="a name, or a file with a path")
    parser.add_argument(
        "--least",
        type=int,
        default=LEAST_BYTES,
        metavar="BYTES",
        help="compare requests of at least so many bytes (default %(default)s)",
    )
    options = parser.parse_args(arguments)
    errors = []
    for path in list_loops(tuple(options.loops)):
        loop = load_loop(path)
        if not loop.trains:
            continue
        comparison = compare(loop, options.least)
        errors.append(abs(comparison.error))
        sys.stdout.write(f"{describe(comparison)}\n")
    if errors:
        sys.stdout.write(
            f"{len(errors)} loops: reserved {median(errors):.3%} off in the median, "
            f"{max(errors):.3%} at most\n"
        )
    return 0


def describe(comparison: Comparison) -> str:
    """Return the lines about a loop."""
    loop, divergence = comparison.loop, comparison.divergence
    text = (
        f"{loop.name} {loop.model}: reserved {comparison.reserved_bytes // MIB:,} MiB, "
        f"{loop.reserved_bytes // MIB:,} on the GPU ({comparison.error:+.3%}); "
    )
    if divergence is None:
        return f"{text}all {comparison.num_compared} requests are the recorded ones"
    return (
        f"{text}request {divergence.index} of {comparison.num_compared} differs\n"
        f"    replay: {divergence.replayed}\n    GPU:    {divergence.recorded}"
    )


if __name__ == "__main__":
    sys.exit(main())
