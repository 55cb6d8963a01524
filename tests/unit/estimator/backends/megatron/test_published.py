"""Megatron-LM against its own functional tests: bytes that ``torch.cuda`` reported (golden values
in the repository).

Constants of a few megabytes lie between: a micro-batch that is still named, the logger's own
scalars.
"""

import pytest

from service.estimator.values.device import Device
from service.estimator.values.units import MIB
from service.estimator.values.workload import Attention, Checkpointing
from tests.unit.estimator.backends.megatron.builders import (
    A100,
    H100,
    SEPARATE,
    a_gpt3,
    answered,
)


def test_the_distributed_optimizer_between_steps() -> None:
    """gpt3_mcore_te_tp1_pp1_resume_torch_dist_dist_optimizer on 8 H100: 6 + 12 / 8 bytes per
    parameter and three workspaces.
    """
    answer = answered(
        layout={"data_parallel": 8, "zero_stage": 1}, deterministic=True, megatron=SEPARATE
    )

    assert abs(answer.steady_bytes - 581_489_664) < MIB // 100


@pytest.mark.parametrize(
    ("attention", "peak_bytes"), [(Attention.SDPA, 2_691_792_384), (Attention.EAGER, 4_702_430_720)]
)
def test_the_peak_of_eight_ranks(attention: Attention, peak_bytes: int) -> None:
    """The same test, and its run with unfused attention: logits, twelve layers, and the scores of
    each.
    """
    answer = answered(
        layout={"data_parallel": 8, "zero_stage": 1},
        attention=attention,
        deterministic=True,
        megatron=SEPARATE,
    )

    assert abs(answer.allocated_bytes - peak_bytes) < 1.2 * MIB
    assert answer.peak_instant == "loss"


def test_full_recomputation_keeps_the_inputs_of_layers() -> None:
    """gpt3_mcore_te_tp1_pp1_uniform_full_recompute on an A100, beyond what stays between steps."""
    answer = answered(
        device=A100, layout={"data_parallel": 8}, activation_checkpointing=Checkpointing.FULL
    )

    beyond = answer.allocated_bytes - answer.steady_bytes
    assert abs(beyond - (2_536_167_424 - 1_234_585_088)) < MIB // 4


@pytest.mark.parametrize(
    ("device", "beyond_bytes"), [(H100, 36_480_272_384), (A100, 37_554_012_160)]
)
def test_seven_billion_parameters_on_four_tensor_ranks(device: Device, beyond_bytes: int) -> None:
    """gpt3_7b_tp4_pp1_memory_speed: grouped heads; flash-attn 2 before Hopper copies its output."""
    model = a_gpt3(
        vocab_size=131073,
        hidden_size=4096,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        intermediate_size=16384,
        max_position_embeddings=8192,
        tie_word_embeddings=False,
    )

    answer = answered(
        model,
        device=device,
        layout={"data_parallel": 2, "tensor_parallel": 4, "zero_stage": 1},
        sequence_length=8192,
        micro_batch_size=2,
        gradient_accumulation_steps=2,
    )

    assert abs(answer.allocated_bytes - answer.steady_bytes - beyond_bytes) < 2 * MIB


def test_the_last_of_four_stages() -> None:
    """gpt3_mcore_te_tp1_pp4_untie_embeddings on an A100: three layers of one micro-batch, and the
    logits.
    """
    answer = answered(
        a_gpt3(tie_word_embeddings=False),
        device=A100,
        layout={"data_parallel": 2, "pipeline_parallel": 4},
        gradient_accumulation_steps=4,
    )

    last = answer.stages[-1]
    assert abs(last.allocated_bytes - last.steady_bytes - (2_195_420_160 - 719_180_288)) < MIB // 4


def test_a_chunk_holds_what_it_was_sent_last() -> None:
    """gpt3_mcore_te_tp1_pp4_vp1 with the distributed optimizer on 8 GB200: six hidden states beside
    its states.
    """
    answer = answered(
        layout={
            "data_parallel": 2,
            "pipeline_parallel": 4,
            "virtual_pipeline_stages": 3,
            "zero_stage": 1,
        },
        gradient_accumulation_steps=4,
        deterministic=True,
        megatron=SEPARATE,
    )

    assert abs(answer.stages[-1].steady_bytes - 548_399_616) < MIB // 100
