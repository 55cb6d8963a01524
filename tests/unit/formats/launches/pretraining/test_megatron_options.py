"""Megatron-LM's own arguments, read from launches."""

import pytest

from tests.unit.formats.launches.asking import get_workload
from tests.unit.formats.launches.pretraining.test_megatron import read

READ = [
    (
        "--cross-entropy-loss-fusion",
        {"cross_entropy_fusion_impl": "native"},
    ),
    (
        "--transformer-impl local --apply-query-key-layer-scaling --no-masked-softmax-fusion",
        {
            "transformer_impl": "local",
            "masked_softmax_fusion": False,
            "attention_softmax_in_fp32": True,
        },
    ),
    (
        "--no-gradient-accumulation-fusion --no-create-attention-mask-in-dataloader",
        {"gradient_accumulation_fusion": False, "create_attention_mask": False},
    ),
    ("--mtp-num-layers 1", {"mtp_num_layers": 1}),
    (
        "--defer-embedding-wgrad-compute --wgrad-deferral-limit 2",
        {"defer_embedding_wgrad_compute": True, "wgrad_deferral_limit": 2},
    ),
    (
        "--num-experts 8",
        {"moe_token_dispatcher_type": "allgather", "moe_grouped_gemm": False},
    ),
    (
        "--num-experts 8 --moe-token-dispatcher-type alltoall --moe-grouped-gemm",
        {"moe_token_dispatcher_type": "alltoall", "moe_grouped_gemm": True},
    ),
]


@pytest.mark.parametrize(("flags", "options"), READ)
def test_an_argument_is_an_option(flags: str, options: dict[str, object]) -> None:
    """Each is a field of ``workload.megatron``, and nothing else is set."""
    question = read(flags)

    assert get_workload(question)["megatron"] == options
    assert question.imported.ignored == ()
