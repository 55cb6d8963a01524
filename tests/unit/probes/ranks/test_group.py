"""One process as rank r of N, and nothing left of it."""

import os
import sys
import warnings

import pytest
import torch.distributed
from torch.distributed.tensor._sharding_prop import ShardingPropagator

from service.estimator.values.layout import Layout
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.ranks.group import fake_ranks, get_current_layout

LAYOUT = Layout(data_parallel=4, tensor_parallel=2)


def surroundings() -> tuple[object, ...]:
    """Return what of the process a process group could change."""
    propagate = ShardingPropagator._propagate_tensor_meta_non_cached  # noqa: SLF001 - it is replaced inside
    return (
        dict(os.environ),
        sys.excepthook,
        list(warnings.filters),
        propagate,
        torch.distributed.is_initialized(),
    )


def test_a_process_is_the_rank_that_it_is_told_and_then_itself_again() -> None:
    """Twice in one process: the group has the layout's ranks inside, and leaves nothing behind."""
    before = surroundings()
    for rank in (0, 7):
        with fake_ranks(LAYOUT, rank):
            seen = (
                torch.distributed.get_rank(),
                torch.distributed.get_world_size(),
                get_current_layout(),
            )

        assert seen == (rank, 8, LAYOUT)
        assert surroundings() == before
        assert get_current_layout() == Layout()


def test_an_error_inside_leaves_nothing_behind_either() -> None:
    """A refusal in the middle of a run must not keep the next run from its own group."""
    before = surroundings()

    with pytest.raises(ZeroDivisionError), fake_ranks(LAYOUT):
        1 / 0  # noqa: B018 - an error of its own

    assert surroundings() == before


def test_a_gpu_that_is_alone_needs_no_group() -> None:
    """The plain loop runs as ever."""
    with fake_ranks(Layout()):
        assert not torch.distributed.is_initialized()


@pytest.mark.parametrize("rank", [-1, 8])
def test_a_rank_beyond_the_layout_is_refused(rank: int) -> None:
    """The message has the ranks that there are."""
    with pytest.raises(Refusal, match="ranks 0 to 7") as refusal, fake_ranks(LAYOUT, rank):
        pytest.fail("no such rank")

    assert refusal.value.kind is FailureKind.INVALID_REQUEST
