"""A scheduler that asks how many GPUs a job needs, where on its cluster it would run now, and
reserves them.

python scheduler.py llama-3.1-8b --cluster prod-a --gpu A100-SXM4-80GB --holder team-vision
--sequence-length 4096

The server is HEADROOM_URL's, the key HEADROOM_API_KEY's (scope ``plan``). Exit codes: 0 reserved, 1
nothing free or nothing is enough, 2 the question is refused or nobody answers.
"""

import argparse
import sys

from headroom import ConflictError, Headroom, HeadroomError, Stored, Until
from headroom.models import FamilyAnswer, PlacedAnswer, PlanCandidate, ReservationAnswer

TRIES = 3
"""How often a plan is made anew because somebody else was faster."""


def main() -> int:
    """Plan and reserve."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--gpu", default="A100-SXM4-80GB")
    parser.add_argument("--holder", required=True)
    parser.add_argument("--sequence-length", type=int, default=4096)
    parser.add_argument("--hours", type=float, default=1.0)
    options = parser.parse_args()
    try:
        return schedule(options)
    except (HeadroomError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2


def schedule(options: argparse.Namespace) -> int:
    """Ask how many, and reserve them."""
    workload = {"task": "train", "method": "lora", "sequence_length": options.sequence_length}
    with Headroom() as headroom:
        needed = headroom.how_many(options.model, workload=workload, gpu=options.gpu)
        if isinstance(needed, FamilyAnswer):
            print(
                f"{options.gpu} is a family of GPUs; name one of "
                f"{', '.join(str(answer.gpu) for answer in needed.answers)}"
            )
            return 1
        print(f"{options.model} needs {needed.num_gpus} x {options.gpu}")
        reserved = reserve(headroom, options, workload)
    if reserved is None:
        return 1
    nodes = ", ".join(f"{share.num_gpus} on {share.node}" for share in reserved.value.gpus)
    print(f"reserved for {reserved.value.holder} until {reserved.value.expires_at}: {nodes}")
    return 0


def reserve(
    headroom: Headroom, options: argparse.Namespace, workload: dict[str, object]
) -> Stored[ReservationAnswer] | None:
    """Reserve what a plan on the cluster as it is now asks for; a plan that somebody overtook is
    made anew.
    """
    for _ in range(TRIES):
        planned = headroom.plan(
            {"model": options.model, "workload": workload, "cluster": options.cluster}
        )
        found = next(filter(is_placed, planned.candidates), None)
        if found is None or not isinstance(found.placement, PlacedAnswer):
            print(f"nothing on {options.cluster} is enough or free now")
            return None
        try:
            return headroom.reservations(options.cluster).create(
                options.holder,
                placement=found.placement,
                until=Until(seconds=round(options.hours * 3600)),
            )
        except ConflictError as taken:
            print(f"{taken.detail}; planning anew")
    return None


def is_placed(candidate: PlanCandidate) -> bool:
    """Tell whether a plan has its GPUs now."""
    return isinstance(candidate.placement, PlacedAnswer)


if __name__ == "__main__":
    sys.exit(main())
