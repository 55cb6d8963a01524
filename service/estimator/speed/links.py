"""Collective times over the links of a layout.

Collectives are rings inside of a node, and go over its network beyond it.
"""

from dataclasses import dataclass

from service.estimator.speed.rates import LINK_SHARE, Rates
from service.estimator.values.classes.quick_init import init_quickly
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout

DIRECTIONS = 2
"""Link rates of the catalogue count both directions together."""


@init_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Link rates in bytes per second.

    They are those of one rank's link in one direction, and of a whole node's network.
    """

    link: float
    network: float
    gpus_per_node: int

    @classmethod
    def from_device(cls, device: Device, layout: Layout, rates: Rates) -> "Links":
        """Return the links of a device in a layout.

        A device of unknown links has none that take time.
        """
        link = (device.link_bytes_per_second or 0) / DIRECTIONS * LINK_SHARE
        return cls(
            link=link or float("inf"),
            network=layout.network_bytes_per_second
            or rates.network_bytes_per_second * layout.gpus_per_node,
            gpus_per_node=layout.gpus_per_node,
        )

    def bus(self, ranks: int, stride: int) -> float:
        """Return the bytes per second of a ring of ``ranks``.

        They are ``stride`` apart: the groups of a node share its network.
        """
        if ranks * stride <= self.gpus_per_node:
            return self.link
        return min(self.link, self.network / min(stride, self.gpus_per_node))

    def gather(self, num_bytes: float, ranks: int, stride: int = 1) -> float:
        """Return the seconds of an all-gather or a reduce-scatter.

        It is of ``num_bytes`` over ``ranks``.
        """
        return 0.0 if ranks == 1 else num_bytes * (ranks - 1) / ranks / self.bus(ranks, stride)

    def reduce(self, num_bytes: float, ranks: int, stride: int = 1) -> float:
        """Return the seconds of an all-reduce: a reduce-scatter and an all-gather."""
        return 2 * self.gather(num_bytes, ranks, stride)

    def exchange(self, num_bytes: float, ranks: int, stride: int = 1) -> float:
        """Return the seconds of an all-to-all.

        Each rank keeps its own share of ``num_bytes``.
        """
        return self.gather(num_bytes, ranks, stride)
