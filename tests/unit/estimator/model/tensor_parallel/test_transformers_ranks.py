"""Two tensor-parallel ranks of transformers 5.23, against rank 0 run on CPU in a fake process group
(torch 2.13).

Each family's own ``base_model_tp_plan`` was applied to three small layers in bf16 with eager
attention; the second step of two sequences of 256 tokens was recorded. What differs is a few
kilobytes of the tracer's own: the loop's names and buffers.
"""

from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.units import GIB
from service.estimator.values.workload import Attention, TrainWorkload

_SIZES = {
    "vocab_size": 4096,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
_DEVICE = Device(name="H100-SXM5-80GB", capacity_bytes=80 * GIB, usable_bytes=79 * GIB)
_NEGLIGIBLE = 3e-4
_WIDE_HEADS = {"head_dim": 32}
_EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2}
_SPARSE = {
    **_WIDE_HEADS,
    **_EXPERTS,
    "moe_intermediate_size": 128,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
_ROUTED = {
    **_WIDE_HEADS,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 128,
}


@pytest.mark.parametrize(
    ("model_type", "more", "forward_bytes", "backward_bytes"),
    [
        ("llama", {}, 47_445_616, 55_826_016),
        ("qwen2", {}, 47_447_152, 55_827_552),
        ("qwen3", _WIDE_HEADS, 49_252_336, 57_632_736),
        ("olmo2", {}, 64_663_408, 73_043_808),
        ("phi3", {}, 60_421_744, 68_802_144),
        ("glm", _WIDE_HEADS, 49_822_800, 58_203_200),
        ("glm4", _WIDE_HEADS, 54_556_752, 62_937_152),
        ("gemma2", {**_WIDE_HEADS, "query_pre_attn_scalar": 32}, 62_940_850, 71_321_250),
        (
            "gemma3_text",
            {**_WIDE_HEADS, "query_pre_attn_scalar": 32, "sliding_window": 512},
            57_998_066,
            66_378_466,
        ),
        ("starcoder2", {}, 41_819_248, 50_199_648),
        ("gpt_neox", {}, 41_205_568, 49_585_968),
        ("phi", {}, 42_584_216, 50_964_616),
        ("cohere", {}, 47_442_040, 55_822_440),
        ("nemotron", _WIDE_HEADS, 41_800_272, 50_180_672),
        ("mixtral", {"num_local_experts": 8, "num_experts_per_tok": 2}, 62_185_168, 70_565_568),
        ("qwen3_moe", _SPARSE, 52_170_832, 60_551_232),
        ("olmoe", _EXPERTS, 76_330_960, 84_711_360),
        ("glm4_moe", {**_ROUTED, "first_k_dense_replace": 1}, 51_177_152, 59_557_552),
    ],
)
def test_a_rank_of_each_family_is_what_was_traced(
    model_type: str, more: dict[str, Any], forward_bytes: int, backward_bytes: int
) -> None:
    """Shares of weights, gathered and summed outputs, and shares of gradients that are added up."""
    model = architecture_from_config({"model_type": model_type, **_SIZES, **more})
    workload = TrainWorkload(
        sequence_length=256,
        micro_batch_size=2,
        precision=POLICIES["bf16"],
        optimizer="sgd",
        attention=Attention.EAGER,
        keeps_logits=True,
        fp32_outputs=False,
    )

    answer = estimate(model, workload, layout=Layout(tensor_parallel=2), device=_DEVICE)

    peaks = {phase.name: phase.allocated_bytes for phase in answer.phases}
    assert abs(peaks["forward_pass"] / forward_bytes - 1) <= _NEGLIGIBLE
    assert abs(peaks["backward_pass"] / backward_bytes - 1) <= _NEGLIGIBLE


def test_a_plan_that_leaves_parts_whole_is_refused() -> None:
    """deepseek_v3's plan splits no attention, and qwen2_moe's no shared expert: their ranks are not
    those of ``local.py``.
    """
    model = architecture_from_config(
        {"model_type": "qwen2_moe", **_SIZES, **_SPARSE, "shared_expert_intermediate_size": 256}
    )

    with pytest.raises(NotModelledError, match="qwen2_moe"):
        estimate(
            model,
            TrainWorkload(sequence_length=256),
            layout=Layout(tensor_parallel=2),
            device=_DEVICE,
        )
