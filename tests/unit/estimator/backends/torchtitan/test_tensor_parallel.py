"""torchtitan's tensor-parallel ranks: shares of states, of sequences between layers, and of the
vocabulary at the loss.
"""

from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Loss
from service.estimator.values.precision import Precision
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Checkpointing, Framework, TrainWorkload
from tests.builders import a_device, a_model

_TOKENS, _HIDDEN, _RANKS = 2 * 512, 64, 2
_PRECISION = Precision(
    name="custom",
    param_dtype=DType.FP32,
    compute_dtype=DType.BF16,
    grad_dtype=DType.FP32,
    optimizer_dtype=DType.FP32,
)


def _ask(
    model: Architecture | None = None,
    *,
    ranks: int = _RANKS,
    contexts: int = 1,
    data: int = 8,
    **changes: Any,  # noqa: ANN401 - each its own type
) -> Estimate:
    given: dict[str, Any] = {
        "sequence_length": 512,
        "micro_batch_size": 2,
        "framework": Framework.TORCHTITAN,
        "precision": _PRECISION,
        "optimizer": "adamw_fused",
        "activation_checkpointing": Checkpointing.FULL,
    }
    layout = Layout(
        data_parallel=data,
        tensor_parallel=ranks,
        context_parallel=contexts,
        zero_stage=3,
        sharding=Sharding.FSDP2,
    )
    return estimate(
        model or a_model(), TrainWorkload(**(given | changes)), layout=layout, device=a_device()
    )


def _above_steady(answer: Estimate, instant: str) -> int:
    return (
        next(each.allocated_bytes for each in answer.instants if each.name == instant)
        - answer.steady_bytes
    )


def test_ranks_share_all_states_but_those_of_norms() -> None:
    """Embedding, head and products are split, and then sharded over the data ranks; every rank has
    all of the norms.
    """
    model = a_model(num_hidden_layers=4)
    alone, shared = _ask(model, ranks=1), _ask(model)

    norms = _HIDDEN * (2 * 4 + 1)
    assert shared.num_gpus == _RANKS * alone.num_gpus
    assert _RANKS * shared.steady_bytes - alone.steady_bytes == pytest.approx(
        12 * norms // 8, abs=4 * 64
    )


def test_a_checkpoint_keeps_a_ranks_part_of_the_sequence() -> None:
    """Each layer more keeps its input: 16-bit hidden states of the rank's own tokens."""
    few, many = (_above_steady(_ask(a_model(num_hidden_layers=n)), "loss") for n in (2, 6))

    assert many - few == 4 * 2 * _HIDDEN * _TOKENS // _RANKS


def test_a_selective_checkpoint_keeps_what_ranks_added_up() -> None:
    """Beside shares of q, v, gate and attention: the whole output of the last product, and two
    reduce-scatters' outputs.
    """
    few, many = (
        _above_steady(
            _ask(a_model(num_hidden_layers=n), activation_checkpointing=Checkpointing.SELECTIVE),
            "loss",
        )
        for n in (2, 6)
    )

    shares = 2 * (64 + 32 + 160) + 2 * 64 + 4 * 4
    own = 3 * 2 * _HIDDEN
    assert (many - few) // 4 == _TOKENS * (2 * _HIDDEN) + _TOKENS // _RANKS * (shares + own)


def test_the_loss_holds_four_fp32_copies_of_a_ranks_logits() -> None:
    """Log-probabilities, ones of the labels, their sum with the exponentials, and its product with
    the loss's gradient.
    """
    small, large = (_above_steady(_ask(a_model(vocab_size=n)), "loss") for n in (8192, 16384))
    gathered = 2 * 2 * 8192 // _RANKS * _HIDDEN

    assert large - small - gathered == pytest.approx(4 * 4 * _TOKENS * 8192 // _RANKS, rel=0.01)


@pytest.mark.parametrize(
    ("ranks", "forward", "backward"), [(2, 81_363_100, 132_703_420), (4, 46_235_804, 70_862_012)]
)
def test_peaks_are_those_of_a_traced_rank(ranks: int, forward: int, backward: int) -> None:
    """Llama 3's layers under torchtitan's plan, run by torch 2.13 in a fake process group, every
    storage counted.

    Four layers recomputed, two data ranks; the last block and the root stay gathered after forward.
    Of a backward of four ranks one 16-bit hidden state of the rank's own tokens is counted too
    many.
    """
    sizes = {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "num_hidden_layers": 4,
        "vocab_size": 256,
    }
    model = a_model(hidden_size=512, intermediate_size=1536, max_position_embeddings=2048, **sizes)
    answer = _ask(model, ranks=ranks, data=2, sequence_length=2048)
    found = {each.name: each.allocated_bytes for each in answer.instants}

    assert found["forward"] == pytest.approx(forward, rel=0.0005)
    assert backward <= found["backward"] <= backward + 2 * 512 * (2 * 2048 // 4) + 20_000


def test_context_ranks_share_what_tensor_ranks_do() -> None:
    """Two context ranks with half of a sequence each keep what one keeps of a sequence half as
    long.
    """
    model = a_model(num_hidden_layers=2)
    alone = _ask(model, sequence_length=512)
    split = _ask(model, contexts=2, sequence_length=1024)

    assert split.num_gpus == 2 * alone.num_gpus
    assert split.steady_bytes < alone.steady_bytes


@pytest.mark.parametrize("said", [False, True])
def test_sequences_are_split_whether_that_is_said_or_not(*, said: bool) -> None:
    """The plan has no other way."""
    layout = Layout(
        data_parallel=8,
        tensor_parallel=2,
        sequence_parallel=said,
        zero_stage=3,
        sharding=Sharding.FSDP2,
    )
    workload = TrainWorkload(
        sequence_length=512,
        micro_batch_size=2,
        framework=Framework.TORCHTITAN,
        precision=_PRECISION,
        optimizer="adamw_fused",
    )
    answer = estimate(a_model(), workload, layout=layout, device=a_device())

    assert (
        answer.allocated_bytes == _ask(activation_checkpointing=Checkpointing.NONE).allocated_bytes
    )


@pytest.mark.parametrize(
    ("model", "changes", "field"),
    [
        (a_model(tie_word_embeddings=True), {}, "layout.tensor_parallel"),
        (a_model(), {"loss": Loss.CHUNKED}, "workload.loss"),
        (a_model(), {"compile": True}, "workload.framework_version"),
    ],
)
def test_what_ranks_have_no_term_for_is_refused(
    model: Architecture, changes: dict[str, Any], field: str
) -> None:
    """A tied head, a loss by chunks, and one that inductor compiles."""
    with pytest.raises(NotModelledError) as refusal:
        _ask(model, **changes)

    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"ranks": 3}, "workload.sequence_length"), ({"ranks": 4}, "layout.tensor_parallel")],
)
def test_what_ranks_cannot_share_is_refused(changes: dict[str, Any], field: str) -> None:
    """Tokens of a sequence, and key and value heads, are shared out evenly."""
    with pytest.raises(InvalidInputError) as refusal:
        _ask(**changes)

    assert refusal.value.field == field
