"""What a cluster may be that is stored."""

import pytest
from msgspec import structs

from service.contract.schemas.clusters import NodeRequest, PoolRequest
from service.contract.to_answer.inventories import MAX_NODES, read_inventory
from service.estimator.values.errors import InvalidInputError


def pool(name: str, num_nodes: int) -> PoolRequest:
    """Return a pool of nodes without names."""
    return PoolRequest(name=name, gpu="H200", gpus_per_node=8, num_nodes=num_nodes)


def test_the_nodes_of_all_pools_are_bounded_together() -> None:
    """Every plan looks at each of them, counted or named."""
    one_named = PoolRequest(name="b", gpu="H200", gpus_per_node=8, nodes=[NodeRequest(name="n1")])

    assert len(read_inventory([pool("a", MAX_NODES - 1), one_named]).pools) == 2
    with pytest.raises(
        InvalidInputError, match="have 10,001 nodes, and a cluster may have 10,000"
    ) as refused:
        read_inventory([pool("a", MAX_NODES), one_named])
    assert refused.value.field == "pools"


def test_no_node_stands_in_two_pools_of_one_gpu() -> None:
    """Partitions that overlap would promise its GPUs twice; other GPUs of the same machine are
    others.
    """
    first = PoolRequest(
        name="day", gpu="A100-SXM4-80GB", gpus_per_node=8, nodes=[NodeRequest(name="n1")]
    )
    counted = PoolRequest(name="n", gpu="A100-SXM4-80GB", gpus_per_node=8, num_nodes=1)
    named = PoolRequest(
        name="m", gpu="A100-SXM4-80GB", gpus_per_node=8, nodes=[NodeRequest(name="n-1")]
    )

    with pytest.raises(
        InvalidInputError, match=r"node 'n1' stands in pools 'day' and 'night' .* promised twice"
    ) as refused:
        read_inventory([first, structs.replace(first, name="night", gpu="NVIDIA A100-SXM4-80GB")])
    assert refused.value.field == "pools[1].nodes"
    with pytest.raises(InvalidInputError, match="node 'n-1' stands in pools"):
        read_inventory([counted, named])
    assert len(read_inventory([first, structs.replace(first, name="night", gpu="L4")]).pools) == 2
