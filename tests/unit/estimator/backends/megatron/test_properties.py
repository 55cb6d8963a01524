"""What must hold of Megatron-LM's ranks whatever the sizes."""

from hypothesis import given
from hypothesis import strategies as st

from service.estimator.backends.megatron.parameters import count_stage_parameters
from service.estimator.backends.megatron.shape import build_rank_shape
from service.estimator.backends.megatron.stages import list_stage_chunks, merge_chunks
from service.estimator.values.workload import Attention, Checkpointing
from tests.unit.estimator.backends.megatron.builders import a_gpt3, a_megatron_layout, answered

_DEGREES = st.sampled_from((1, 2, 4))
_KERNELS = st.sampled_from((Attention.SDPA, Attention.FLASH, Attention.EAGER))


@given(stages=_DEGREES, virtual=st.sampled_from((1, 3)), tied=st.booleans())
def test_stages_add_up_to_the_model(stages: int, virtual: int, tied: bool) -> None:  # noqa: FBT001 - hypothesis names it
    """All stages together hold every parameter once, and a tied table twice where it is on two
    stages.
    """
    model = a_gpt3(tie_word_embeddings=tied)
    layout = a_megatron_layout(
        pipeline_parallel=stages, virtual_pipeline_stages=virtual if stages > 1 else 1
    )

    held = sum(
        count_stage_parameters(
            build_rank_shape(model, layout),
            merge_chunks(list_stage_chunks(model, layout)[stage][1]),
        ).total
        for stage in range(stages)
    )

    twice = model.embedding.numel if tied and stages > 1 else 0
    assert held == model.counts.total + twice


@given(ranks=_DEGREES, spread=st.booleans(), attention=_KERNELS)
def test_more_tensor_ranks_never_need_more(ranks: int, spread: bool, attention: Attention) -> None:  # noqa: FBT001
    """Each rank's peak and states fall with their number; sequence parallelism never adds to a
    layer's tensors.
    """
    layout = {"tensor_parallel": 2 * ranks, "sequence_parallel": spread}

    fewer = answered(layout={"tensor_parallel": ranks}, attention=attention)
    more = answered(layout=layout, attention=attention)

    assert more.allocated_bytes < fewer.allocated_bytes
    assert more.steady_bytes < fewer.steady_bytes


@given(
    ranks=_DEGREES,
    attention=_KERNELS,
    how=st.sampled_from((Checkpointing.SELECTIVE, Checkpointing.FULL)),
)
def test_recomputing_never_needs_more_than_keeping(
    ranks: int, attention: Attention, how: Checkpointing
) -> None:
    """The deciding moment is not higher when less is kept."""
    layout = {"tensor_parallel": ranks}

    kept = answered(layout=layout, attention=attention)
    again = answered(layout=layout, attention=attention, activation_checkpointing=how)

    assert again.allocated_bytes <= kept.allocated_bytes


@given(ranks=st.sampled_from((2, 4, 8, 64)))
def test_the_distributed_optimizer_spreads_twelve_bytes(ranks: int) -> None:
    """Masters and moments are 12 bytes per parameter over the data-parallel ranks; weights and
    gradients stay whole.
    """
    alone, spread = (
        answered(layout={"data_parallel": ranks, "zero_stage": stage}).steady_bytes
        for stage in (0, 1)
    )

    parameters = a_gpt3().counts.total
    assert alone - spread == 12 * parameters - 12 * -(-parameters // ranks)


@given(sequences=st.integers(1, 6))
def test_activations_grow_linearly_with_the_micro_batch(sequences: int) -> None:
    """With one kernel throughout, each sequence adds the same to the peak."""
    beyond = [
        (answer := answered(micro_batch_size=count, attention=Attention.SDPA)).allocated_bytes
        - answer.steady_bytes
        for count in (sequences, sequences + 1, sequences + 2)
    ]

    assert beyond[2] - beyond[1] == beyond[1] - beyond[0]
