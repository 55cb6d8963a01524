"""What each rank holds, and what a result says about the rank that was run."""

from dataclasses import replace

import pytest
import torch

from service.estimator.values.layout import Layout
from service.jobs.contract import FailureKind, ProbeDevice
from service.probing.refusal import Refusal
from tests.unit.probes.ranks.runs import LLAMA, TRAIN, Asked, fsdp2, run
from worker.probes.attention.names import Kernel
from worker.probes.ranks.group import fake_ranks
from worker.probes.ranks.materialize import iter_local_weights
from worker.probes.run.assemble import assemble


def held(layout: Layout, rank: int = 0, *, tied: bool = False) -> int:
    """Return the parameters that a rank holds."""
    with fake_ranks(layout, rank):
        config = {**LLAMA, "tie_word_embeddings": tied}
        assembled = assemble(config, TRAIN, layers=(0, 1), kernel=Kernel.FLASH, device="cpu")
        return sum(weight.numel() for weight in iter_local_weights(assembled.model))


def test_shards_add_up_to_the_whole_and_the_first_holds_most() -> None:
    """Three ranks share 64 rows unevenly: nothing is lost, nothing held twice."""
    shares = [held(fsdp2(3), rank) for rank in range(3)]

    assert sum(shares) == held(Layout())
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[-1]


def test_tensor_parallel_ranks_split_all_but_embedding_and_norms() -> None:
    """Of two ranks each has half of every projection and of the head."""
    hidden, vocab, norms = 64, 512, 5
    whole = vocab * hidden + norms * hidden

    assert held(Layout(tensor_parallel=2)) == whole + (held(Layout()) - whole) // 2


def test_a_head_that_is_the_embeddings_table_stays_whole_with_it() -> None:
    """There is one table, and each rank holds all of it: what an untied rank has more is its half
    of the head.
    """
    table = 64 * 512

    assert (
        held(Layout(tensor_parallel=2)) - held(Layout(tensor_parallel=2), tied=True) == table // 2
    )
    assert held(Layout()) - held(Layout(), tied=True) == table


def test_real_weights_of_a_rank_have_values_and_buffers_are_computed() -> None:
    """What was made on meta is filled: garbage could be NaN, and experts would be chosen by it."""
    with fake_ranks(fsdp2(2)):
        assembled = assemble(LLAMA, TRAIN, layers=(0, 1), kernel=Kernel.FLASH, device="cpu")
        tensors = [*iter_local_weights(assembled.model), *assembled.model.buffers()]

    assert all(torch.isfinite(tensor).all() for tensor in tensors)
    assert all(tensor.abs().sum() > 0 for tensor in tensors)


def test_a_result_says_which_rank_was_run_and_what_it_cannot_show() -> None:
    """The rank and their number are in the environment, streams and NCCL in the notes."""
    result = run(Asked(layout=fsdp2(8)), ProbeDevice.TRACE)

    assert (result.environment["rank"], result.environment["ranks"]) == (0, 8)
    assert any("rank 0 of 8" in note for note in result.notes)
    assert any("stream" in note for note in result.notes)
    assert result.transferable


def test_a_lighter_rank_corrects_no_estimate() -> None:
    """Estimates are for the rank that holds most."""
    first, last = (run(Asked(layout=fsdp2(3), rank=rank), ProbeDevice.TRACE) for rank in (0, 2))

    assert last.peaks.allocated_bytes < first.peaks.allocated_bytes
    assert not last.transferable


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            Asked(
                layout=fsdp2(2, shard_embeddings_separately=True),
                config={**LLAMA, "tie_word_embeddings": True},
            ),
            "embedding",
        ),
        (Asked(layout=Layout(pipeline_parallel=2)), "stage"),
        (Asked(layout=fsdp2(2), workload=replace(TRAIN, optimizer="adamw_8bit")), "adamw_8bit"),
    ],
)
def test_a_rank_that_cannot_be_run_is_refused_in_words(asked: Asked, words: str) -> None:
    """Nothing else is run instead."""
    with pytest.raises(Refusal, match=words) as refusal:
        run(asked, ProbeDevice.TRACE)

    assert refusal.value.kind is FailureKind.UNSUPPORTED
