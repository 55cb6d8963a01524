"""What one layer keeps, against terms worked out by hand; shares of experts; sequence and context
parallelism.

h hidden, q query, k key, f inner features, a heads, t tensor ranks: bytes per token.
"""

from typing import Any

import pytest

from service.estimator.backends.megatron.chunks import record_chunk
from service.estimator.backends.megatron.parameters import count_stage_parameters
from service.estimator.backends.megatron.shape import build_rank_shape, resolve_switches
from service.estimator.backends.megatron.stages import StageLayers
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Sharding
from service.estimator.values.units import KIB, MIB
from service.estimator.values.workload import Attention, Checkpointing
from tests.builders import a_model
from tests.unit.estimator.backends.megatron.builders import (
    A100,
    GB200,
    a_gpt3,
    a_megatron_layout,
    a_megatron_step,
    answered,
)

_MIXTRAL = {
    "model_type": "mixtral",
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}


def _kept_per_token(
    model: Architecture,
    *,
    words: dict[str, Any] | None = None,
    sparse: bool = False,
    **degrees: Any,  # noqa: ANN401
) -> int:
    """Return the bytes per token that one layer in the middle keeps."""
    shape = build_rank_shape(model, a_megatron_layout(**degrees))
    how = resolve_switches(
        a_megatron_step(**(words or {})), heads=shape.heads, fused_attention=True
    )
    one, two = (
        record_chunk(
            shape,
            how,
            StageLayers(
                dense=0 if sparse else n, sparse=n if sparse else 0, first=False, last=False
            ),
        )
        for n in (1, 2)
    )
    return two.retained[3] - one.retained[3]


def test_a_gpt_layer_keeps_what_its_kernels_read() -> None:
    """Inputs and outputs of both norms 8h, two dropout masks 2h, qkv, output and row sums, both
    sides of the activation.
    """
    h, q, f, a = 512, 512, 2048, 8

    assert _kept_per_token(a_gpt3()) == 8 * h + 2 * h + 6 * q + 2 * q + 4 * a + 4 * f + 2 * 8


def test_tensor_ranks_share_what_lies_between_their_products() -> None:
    """Without sequence parallelism norms and masks stay whole (arXiv:2205.05198, section 4.2.1)."""
    h, q, f, a, t = 512, 512, 2048, 8, 4

    kept = _kept_per_token(a_gpt3(), tensor_parallel=t)

    assert kept == 10 * h + (8 * q + 4 * a + 4 * f) // t + 2 * 8


def test_sequence_parallelism_shares_the_rest() -> None:
    """Every term is divided (arXiv:2205.05198, section 4.2.2)."""
    t = 4

    whole = _kept_per_token(a_gpt3())

    assert _kept_per_token(a_gpt3(), tensor_parallel=t, sequence_parallel=True) == whole // t


def test_a_llama_layer_keeps_three_tensors_of_its_inner_size() -> None:
    """Gate and up in one tensor and their product; no masks; the inverse deviation alone."""
    h, q, k, f, a = 64, 64, 32, 160, 4

    assert _kept_per_token(a_model()) == 8 * h + 2 * (q + 2 * k) + 2 * q + 4 * a + 6 * f + 2 * 4


def test_full_recomputation_keeps_the_input() -> None:
    """Two bytes of each element of the hidden state."""
    assert (
        _kept_per_token(a_gpt3(), words={"activation_checkpointing": Checkpointing.FULL}) == 2 * 512
    )


def test_selective_recomputation_drops_the_scores() -> None:
    """Unfused attention keeps 5as; computed again, nothing grows with the square of the
    sequence.
    """
    shape = build_rank_shape(a_gpt3(), a_megatron_layout())
    layers = StageLayers(dense=1, sparse=0, first=False, last=False)

    kept, again = (
        record_chunk(
            shape,
            resolve_switches(
                a_megatron_step(attention=Attention.EAGER, activation_checkpointing=how),
                heads=shape.heads,
                fused_attention=True,
            ),
            layers,
        )
        for how in (Checkpointing.NONE, Checkpointing.SELECTIVE)
    )

    assert (kept.retained[5], again.retained[5]) == (5 * 8, 0)


def test_routed_rows_are_kept_at_each_product() -> None:
    """Per chosen expert: its input 2h, gate and up 4f, their product 2f, a probability; beside them
    the router's 13E.
    """
    model = architecture_from_config(_MIXTRAL)
    h, q, k, f, a, experts, chosen = 64, 64, 32, 96, 4, 8, 2

    kept = _kept_per_token(model, sparse=True)

    attention = 4 * h + 2 * (q + 2 * k) + 2 * q + 4 * a + 4
    assert kept == attention + 4 * h + 4 + 13 * experts + chosen * (2 * h + 6 * f + 4)


def test_experts_are_spread_over_ranks() -> None:
    """Four expert ranks hold two experts each; their states are spread over the ranks that hold the
    same ones.
    """
    model = architecture_from_config(_MIXTRAL)
    layers = StageLayers(dense=0, sparse=4, first=True, last=True)

    whole, spread = (
        count_stage_parameters(build_rank_shape(model, a_megatron_layout(**d)), layers)
        for d in ({}, {"data_parallel": 4, "expert_parallel": 4})
    )

    assert 4 * spread.experts == whole.experts
    assert spread.dense == whole.dense
    assert whole.total == model.counts.total


def test_context_ranks_share_the_sequence() -> None:
    """Two ranks with half of the tokens each keep half of what one keeps."""
    one, two = (
        answered(
            a_model(),
            layout={"context_parallel": ranks},
            attention=Attention.FLASH,
            micro_batch_size=1,
        )
        for ranks in (1, 2)
    )

    beyond = [answer.allocated_bytes - answer.steady_bytes for answer in (one, two)]
    assert beyond[1] < 0.6 * beyond[0]


def test_components_add_up() -> None:
    """Each has a formula and a source, and they sum to the bytes of the device."""
    answer = answered(
        layout={
            "tensor_parallel": 2,
            "sequence_parallel": True,
            "data_parallel": 2,
            "zero_stage": 1,
        },
    )

    assert sum(component.bytes for component in answer.components) == answer.device_bytes
    assert all(component.formula and component.source for component in answer.components)


@pytest.mark.parametrize(
    ("words", "layout", "field"),
    [
        ({"optimizer": "lion"}, {}, "workload.optimizer"),
        ({"attention": Attention.EFFICIENT}, {}, "workload.attention"),
        ({"compile": True}, {}, "workload.compile"),
        ({}, {"sharding": Sharding.FSDP2, "zero_stage": 3}, "layout.sharding"),
        ({}, {"data_parallel": 2, "zero_stage": 2}, "layout.zero_stage"),
    ],
)
def test_what_has_no_term_is_refused(
    words: dict[str, Any], layout: dict[str, Any], field: str
) -> None:
    """Each refusal names its field."""
    with pytest.raises(NotModelledError) as refused:
        answered(layout=layout, **words)

    assert refused.value.field == field


def test_a_family_that_megatron_does_not_build_is_refused() -> None:
    """Its arguments describe no BLOOM."""
    model = architecture_from_config(
        {"model_type": "bloom", "vocab_size": 512, "hidden_size": 64, "n_layer": 2, "n_head": 4}
    )

    with pytest.raises(NotModelledError, match="bloom"):
        answered(model)


def test_a_layer_keeps_what_the_paper_says() -> None:
    """``34 sbh / t`` with sequence parallelism and selective recomputation (arXiv:2205.05198, table
    2), and the norms' rows.
    """
    h, t = 6144, 8
    model = a_gpt3(
        hidden_size=h,
        num_attention_heads=64,
        num_key_value_heads=64,
        head_dim=96,
        intermediate_size=4 * h,
    )
    words = {"attention": Attention.EAGER, "activation_checkpointing": Checkpointing.SELECTIVE}

    kept = _kept_per_token(model, words=words, tensor_parallel=t, sequence_parallel=True)

    assert kept == 34 * h // t + 2 * 8 // t


@pytest.mark.parametrize(
    ("device", "workspaces", "copied"), [(A100, 2 * (32 * MIB - 8320 * KIB), 0), (GB200, 0, 1)]
)
def test_reproducible_results_cost_workspaces_and_kernels(
    device: Device, workspaces: int, copied: int
) -> None:
    """Before Hopper both cuBLAS handles get ``:4096:8``; on a Blackwell flash-attn 2 copies the
    output of each of 12 layers.
    """
    free, same = (answered(device=device, deterministic=bits) for bits in (False, True))

    assert same.steady_bytes - free.steady_bytes == workspaces
    assert same.allocated_bytes - free.allocated_bytes == workspaces + copied * 12 * 2 * 512 * 4096
