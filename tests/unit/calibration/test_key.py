"""A key changes with everything that moves the curve and with nothing else."""

import re
from dataclasses import replace

import pytest

from service.calibration import key as key_module
from service.calibration.evidence import Quantity
from service.calibration.key import build_calibration_key, describe_calibration_key, get_run_kind
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.adapters.lora_kernels import LoraKernel
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import (
    Attention,
    Checkpointing,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
    Workload,
)

CONFIG = {
    "model_type": "llama",
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
}
TRAIN = TrainWorkload(sequence_length=128)
SERVE = ServeWorkload(num_sequences=4, prompt_tokens=64, output_tokens=8)


def model(**changes: object) -> Architecture:
    """Return a small llama."""
    return architecture_from_config(CONFIG | changes)


def key(workload: Workload = TRAIN, layout: Layout | None = None, **changes: object) -> str:
    """Return the key of one question about a small llama."""
    return build_calibration_key(model(**changes), workload, layout or Layout())


@pytest.mark.parametrize(
    "same",
    [
        replace(TRAIN, sequence_length=4096),
        replace(TRAIN, micro_batch_size=7),
    ],
)
def test_points_of_one_curve_share_a_key(same: TrainWorkload) -> None:
    """Batch and sequence are points on a curve."""
    assert key(same) == key()


def test_depth_is_a_point_too() -> None:
    """A probe of two layers teaches about the model of eighty."""
    assert key(num_hidden_layers=80) == key()


def test_accumulation_counts_only_as_such() -> None:
    """Gradients exist during forward from the second micro-batch on, and a third changes
    nothing.
    """
    twice, often = (replace(TRAIN, gradient_accumulation_steps=steps) for steps in (2, 8))

    assert key(twice) == key(often) != key()


@pytest.mark.parametrize(
    "other",
    [
        replace(TRAIN, precision=POLICIES["bf16"]),
        replace(TRAIN, optimizer="adamw_fused"),
        replace(TRAIN, activation_checkpointing=Checkpointing.FULL),
        replace(TRAIN, attention=Attention.EAGER),
        replace(TRAIN, keeps_logits=True),
        replace(TRAIN, padding_mask=True),
        replace(TRAIN, method=Method.LORA, lora=Lora()),
        SERVE,
    ],
)
def test_what_moves_the_curve_changes_the_key(other: Workload) -> None:
    """Another method, precision, optimizer, kernel or loop has a curve of its own."""
    assert key(other) != key()


def test_another_structure_changes_the_key() -> None:
    """Width is no point on a curve."""
    assert key(intermediate_size=256) != key()


def test_adapters_of_another_rank_have_another_curve() -> None:
    """The rank of adapters moves states and activations."""
    small, large = (replace(TRAIN, method=Method.LORA, lora=Lora(rank=rank)) for rank in (8, 64))

    assert key(small) != key(large)


def test_a_field_that_came_later_changes_no_key_of_before() -> None:
    """What was learnt of four bits before there was a word for them is still found."""
    four = replace(TRAIN, method=Method.QLORA, lora=Lora())
    eight = replace(four, quantization_bits=8)

    assert "quantization_bits" not in describe_calibration_key(model(), four, Layout())
    assert key(four) != key(eight)


def test_kernels_of_adapters_have_a_curve_of_their_own() -> None:
    """Keys of before have no such word."""
    plain = replace(TRAIN, method=Method.LORA, lora=Lora())
    joined = replace(plain, lora=Lora(kernels=(LoraKernel.QKV,)))

    assert key(plain) != key(joined)
    assert "kernels" not in str(describe_calibration_key(model(), plain, Layout())["lora"])


@pytest.mark.parametrize(
    ("workload", "layout", "stored"),
    [
        (TRAIN, Layout(), "9d71a7b1b2aff239"),
        (
            replace(TRAIN, method=Method.LORA, lora=Lora()),
            Layout(data_parallel=8, zero_stage=3, sharding=Sharding.FSDP2),
            "b14301ca9293978b",
        ),
        (SERVE, Layout(), "21e19585b4c3ae21"),
    ],
)
def test_stored_keys_still_address_what_was_learnt(
    workload: Workload, layout: Layout, stored: str
) -> None:
    """A key that databases hold is the key of the same question today."""
    known = key(workload, layout)

    assert known.startswith(f"v2:{stored}")


def test_replicas_are_like_one_rank_alone() -> None:
    """Under plain data parallelism every rank holds what a single one holds."""
    assert key(layout=Layout(data_parallel=8)) == key()


@pytest.mark.parametrize(
    "layout",
    [
        Layout(data_parallel=8, zero_stage=3, sharding=Sharding.FSDP2),
        Layout(tensor_parallel=2),
        Layout(pipeline_parallel=2),
    ],
)
def test_a_sharded_rank_has_another_curve(layout: Layout) -> None:
    """What one rank holds changes as soon as something is sharded."""
    assert key(layout=layout) != key()


def test_serving_points_share_a_key() -> None:
    """Concurrency and lengths are points on a serving curve."""
    other = replace(SERVE, num_sequences=64, prompt_tokens=2048, output_tokens=512)

    assert key(other) == key(SERVE)


def test_a_key_may_stand_in_a_url() -> None:
    """The API accepts keys of lower-case letters, digits and a few signs."""
    assert re.fullmatch(r"[0-9a-z:_-]{1,128}", key())


def test_a_scope_reads_like_the_question() -> None:
    """A person can see what a key stands for."""
    scope = describe_calibration_key(model(), TRAIN, Layout())

    assert (scope["family"], scope["task"], scope["optimizer"]) == ("llama", "train", "adamw")


def test_a_key_is_hashed_once() -> None:
    """The hundred questions of a search about one curve share its key without work."""
    build_calibration_key(model(), TRAIN, Layout())
    hashes = key_module._hash_question.cache_info  # noqa: SLF001 - what nobody else counts
    before = hashes().misses

    for length in range(1, 101):
        build_calibration_key(model(), replace(TRAIN, sequence_length=length), Layout())

    assert hashes().misses == before


@pytest.mark.parametrize(
    ("workload", "layout", "expected"),
    [
        (TRAIN, Layout(data_parallel=8), "transformers training, full, alone"),
        (
            TRAIN,
            Layout(data_parallel=8, zero_stage=3, sharding=Sharding.FSDP2),
            "transformers training, full, sharded",
        ),
        (SERVE, Layout(tensor_parallel=2), "transformers serving, sharded"),
    ],
)
def test_kinds_of_runs_learn_from_each_other(
    workload: Workload, layout: Layout, expected: str
) -> None:
    """What one kind of run teaches says nothing of another; the context of a process is no run's
    own.
    """
    assert get_run_kind(workload, layout, Quantity.ALLOCATED) == expected
    assert "process" in get_run_kind(workload, layout, Quantity.DEVICE)
