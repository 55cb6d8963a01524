"""Measure a model where a worker is, watch it, and compare what was measured with what had been
predicted.

python measure_and_compare.py gpt2 --device cpu --sequence-length 128

The server is HEADROOM_URL's, the key HEADROOM_API_KEY's (scope ``measure``). Ctrl-C cancels. Exit
codes: 0 measured, 1 it failed or was cancelled, 2 it was refused, nobody answers, or it is not over
in time (and goes on).
"""

import argparse
import sys

from headroom import Event, Headroom, HeadroomError, Job
from headroom.models import MeasurementAnswer


def main() -> int:
    """Ask, watch and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--device", choices=("cpu", "trace", "cuda"), default="cpu")
    parser.add_argument("--gpu", default="A100-SXM4-80GB")
    parser.add_argument("--sequence-length", type=int, default=128)
    parser.add_argument("--timeout", type=float, default=900.0, metavar="SECONDS")
    options = parser.parse_args()
    asked = {
        "model": options.model,
        "workload": {"task": "train", "sequence_length": options.sequence_length},
        "device": options.device,
        "gpu": options.gpu,
    }
    try:
        with Headroom() as headroom:
            job = headroom.measure(asked)
            print(f"measurement {job.id} is {job.first.status}")
            return show(watch(job, options.timeout))
    except (HeadroomError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2


def watch(job: Job, timeout_s: float) -> MeasurementAnswer:
    """Wait for the end and print what happens; Ctrl-C cancels the measurement."""
    try:
        return job.wait(timeout_s, on_event=show_event)
    except KeyboardInterrupt:
        return job.cancel()


def show_event(event: Event) -> None:
    """Print one line for what a person wants to know."""
    if event.kind == "status":
        print(event.data["status"])
    elif event.kind == "progress":
        print(f"{event.data['progress']:4.0%} {event.data['phase']}")


def show(found: MeasurementAnswer) -> int:
    """Print what was measured beside what was predicted."""
    if found.status != "succeeded" or not found.peaks:
        reason = found.problem.to_dict().get("detail", "") if found.problem else ""
        print(f"no result: {found.status} {reason}".rstrip())
        return 1
    print(f"measured  {found.peaks.to_dict()['allocated_bytes']:>16,} bytes allocated at the peak")
    if found.prediction:
        prediction = found.prediction.to_dict()
        print(
            f"predicted {prediction['allocated_bytes']:>16,} bytes, off by "
            f"{prediction['error']:+.2%}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
