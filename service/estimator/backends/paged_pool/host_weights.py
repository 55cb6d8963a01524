"""Weights of a rank on the host (``cpu_offload_gb``).

Layers' tensors are moved one by one until so many GiB are reached, and are read from there over the
bus: nothing of them stays on the GPU. vLLM 0.33.0, ``model_executor/offloader/uva.py``; SGLang
0.5.23, ``utils/offloader.py``.
"""

from dataclasses import replace

from service.estimator.backends.paged_pool.rank_memory import Rank
from service.estimator.values.units import GIB


def offload_weights(ranks: tuple[Rank, ...], offload_gib: float | None) -> tuple[Rank, ...]:
    """Return the ranks without the weights that the host holds.

    Tables, head and norms stay: it is at most what the layers have.
    """
    if offload_gib is None:
        return ranks
    limit = int(offload_gib * GIB)
    by_id: dict[int, Rank] = {}
    for rank in ranks:
        moved = min(limit, rank.layer_bytes)
        by_id[id(rank)] = replace(
            rank, weight_bytes=rank.weight_bytes - moved, host_bytes=rank.host_bytes + moved
        )
    return tuple(by_id[id(rank)] for rank in ranks)
