"""Which groups of ranks one process talks to: each is an NCCL communicator with buffers of its own, outside the allocator.

The groups are those that PyTorch's device meshes and Megatron Core's ``parallel_state.py`` make; a group of one rank has none.
"""

from dataclasses import dataclass

from service.estimator.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Communicator:
    """A group of ``ranks``, this one among them, and what it is for."""

    purpose: str
    ranks: int


def communicators_of(layout: Layout, *, has_experts: bool = False) -> tuple[Communicator, ...]:
    """Return the communicators of one rank; experts that are spread differently from the rest have groups of their own.

    A pipeline sends to both neighbours over one communicator of all its stages. The group of all ranks, which barriers and
    logging use, is counted once where no smaller group is the same.
    """
    data = layout.data_parallel * layout.context_parallel
    groups = [
        Communicator(purpose="data", ranks=data),
        Communicator(purpose="tensor", ranks=layout.tensor_parallel),
        Communicator(purpose="pipeline", ranks=layout.pipeline_parallel),
        Communicator(purpose="context", ranks=layout.context_parallel),
    ]
    if has_experts and layout.expert_parallel > 1:
        groups.append(Communicator(purpose="expert", ranks=layout.expert_parallel))
        split = layout.tensor_parallel if layout.expert_tensor_parallel is None else layout.expert_tensor_parallel
        groups.append(
            Communicator(purpose="expert data", ranks=data * layout.tensor_parallel // (layout.expert_parallel * split))
        )
    if all(group.ranks != layout.num_gpus for group in groups):
        groups.append(Communicator(purpose="world", ranks=layout.num_gpus))
    return tuple(group for group in groups if group.ranks > 1)
