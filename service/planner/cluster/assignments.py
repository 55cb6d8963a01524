"""Placement requests and their outcomes: placed, blocked or impossible."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import ServeWorkload, Workload
from service.planner.cluster.node_supply import Claim
from service.planner.cluster.reservation import Share


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """GPUs for ``num_replicas`` independent jobs.

    Each runs on ``gpus_per_replica`` GPUs of one SKU.

    ``gpus`` are the SKUs that may be taken, in order of preference: more than one only where the
    framework lets replicas run on different ones. ``island_group`` consecutive ranks must reach
    each other over NVLink. With ``mig_profile`` a GPU is a slice, and a replica has one.
    """

    gpus: tuple[str, ...]
    gpus_per_replica: int
    num_replicas: int = 1
    island_group: int = 1
    host_bytes_per_gpu: int = 0
    mig_profile: str | None = None

    def __post_init__(self) -> None:
        """Refuse inconsistent numbers.

        Counts below one, groups that do not divide a replica, and a replica of several slices.
        """
        for name in ("gpus_per_replica", "num_replicas", "island_group"):
            if getattr(self, name) < 1:
                message = f"{name} is {getattr(self, name)}; it must be 1 or more"
                raise InvalidInputError(message, field=name)
        if self.gpus_per_replica % self.island_group:
            message = (
                f"groups of {self.island_group} do not divide the {self.gpus_per_replica} GPUs of "
                "a replica"
            )
            raise InvalidInputError(message, field="island_group")
        if self.mig_profile is not None and self.gpus_per_replica > 1:
            message = (
                f"{self.gpus_per_replica} slices of {self.mig_profile} cannot work together: a job "
                "has one slice"
            )
            raise InvalidInputError(message, field="mig_profile")

    @property
    def num_gpus(self) -> int:
        """GPUs, or slices, of all replicas."""
        return self.gpus_per_replica * self.num_replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """GPUs of one node assigned to one replica."""

    replica: int
    gpu: str
    share: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Named nodes for every replica, in the order of its ranks.

    ``gpus_per_node`` is how many GPUs each replica has on each of its nodes, None where replicas
    differ; ``cost_per_hour`` is None unless every pool that was taken has a price.
    """

    assignments: tuple[Assignment, ...]
    gpus_per_node: int | None
    cost_per_hour: float | None
    notes: tuple[str, ...] = ()

    @property
    def num_gpus(self) -> int:
        """GPUs, or slices, of all assignments."""
        return sum(assignment.share.num_gpus for assignment in self.assignments)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Distinct names of the nodes, in order."""
        return tuple(dict.fromkeys(assignment.share.node for assignment in self.assignments))


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """A cluster that is large enough but in use by others.

    ``claims`` adds up what they hold, the largest first.

    ``possible_at`` is when so many reservations will have expired that it can be placed, None when
    that is not enough.
    """

    reason: str
    num_gpus: int
    free_gpus: int
    total_gpus: int
    claims: tuple[Claim, ...]
    possible_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Impossible:
    """A job that even the empty cluster cannot hold."""

    reason: str
    num_gpus: int
    total_gpus: int


def build_placement_request(
    gpus: Sequence[str],
    workload: Workload,
    layout: Layout,
    estimate: Estimate,
    *,
    mig_profile: str | None = None,
) -> PlacementRequest:
    """Build the placement request of a configuration.

    Tensor-parallel ranks share an island, served replicas stand alone.

    Replicas of a model whose experts are spread over them are one job.
    """
    apart = isinstance(workload, ServeWorkload) and layout.expert_parallel == 1
    replicas = layout.data_parallel if apart else 1
    ranks_per_node = min(layout.num_gpus, layout.gpus_per_node)
    return PlacementRequest(
        gpus=tuple(gpus),
        gpus_per_replica=layout.num_gpus // replicas,
        num_replicas=replicas,
        island_group=layout.tensor_parallel,
        host_bytes_per_gpu=ceil_div(estimate.host_bytes_per_node, ranks_per_node),
        mig_profile=mig_profile,
    )
