"""Kernels counted on a tape, beside what the operations of the real models are."""

from dataclasses import replace

import pytest

from service.catalog.models import load_architecture, load_config, resolve_model
from service.estimator.memory.training_pass import build_training_pass
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.passes.config import TrainingPass
from service.estimator.speed.work import ForwardWork, count_forward_work, count_training_work
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Section
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Attention, Lora, Method, TrainWorkload

WORKLOAD = TrainWorkload(sequence_length=1024, micro_batch_size=2, precision=POLICIES["bf16"])
ADAPTERS = replace(WORKLOAD, method=Method.LORA, lora=Lora(rank=16))
QUANTISED = replace(
    WORKLOAD,
    precision=POLICIES["bf16_autocast"],
    method=Method.QLORA,
    fp32_norms_and_head=True,
    lora=Lora(rank=16, targets=("q_proj", "k_proj", "v_proj", "o_proj")),
)
DISPATCHED = {
    ("llama-3.2-1b", WORKLOAD): (38, 71),
    ("qwen3-0.6b", WORKLOAD): (54, 103),
    ("gemma-3-1b", WORKLOAD): (84, 141),
    ("pythia-1b", WORKLOAD): (23, 40),
    ("mistral-7b-v0.1", ADAPTERS): (80, 123),
    ("olmoe-1b-7b", WORKLOAD): (71, 119),
    ("mistral-7b-v0.1", QUANTISED): (106, 133),
}
"""Operations that launch a kernel, per layer in forward and in backward: what a dispatch mode sees
more of in ten layers than in four (transformers 5.23, torch 2.13), views left out. Each of
bitsandbytes 0.50's products is four on a GPU, two of which unpack, after
``prepare_model_for_kbit_training``.
"""
TOLERANCE = 0.12
"""Of the operations: reads of slices that a dispatch mode counts twice, or casts to the same."""


def a_model(name: str) -> Architecture:
    """Return a model of the catalogue."""
    return load_architecture(resolve_model(name))


def a_pass(model: Architecture, workload: TrainWorkload = WORKLOAD) -> TrainingPass:
    """Return the recorded pass of a workload."""
    return build_training_pass(model, workload, Layout())


def work_of(name: str, workload: TrainWorkload = WORKLOAD) -> ForwardWork:
    """Return the counted work of a model."""
    model = a_model(name)
    return count_training_work(model, a_pass(model, workload))


@pytest.mark.parametrize(("name", "workload"), DISPATCHED)
def test_kernels_of_a_layer_are_those_of_the_real_model(name: str, workload: TrainWorkload) -> None:
    """Forward and backward launch what the model's own code dispatches."""
    model, work = a_model(name), work_of(name, workload)

    forward, backward = (
        work.sections[section].kernels / model.num_hidden_layers
        for section in (Section.FORWARD, Section.BACKWARD)
    )

    assert (forward, backward) == pytest.approx(DISPATCHED[name, workload], rel=TOLERANCE)


def test_linear_layers_are_products_and_attention_is_one_kernel() -> None:
    """A llama's layer has seven products and one attention; backward has two for each product."""
    work = work_of("llama-3.2-1b")

    forward, backward = work.sections[Section.FORWARD], work.sections[Section.BACKWARD]

    assert (forward.products, forward.attentions) == (7 * 16, 16)
    assert (backward.products, backward.attentions) == (2 * (7 * 16 + 1), 16)


def test_a_loss_moves_the_logits_as_often_as_its_operations() -> None:
    """An upcast, a log-softmax and a likelihood, and the same backward: 36 bytes a logit, and the
    head's own product is none of them.
    """
    work, model = work_of("llama-3.2-1b"), a_model("llama-3.2-1b")
    values = sizes.evaluate_monomials(2, 1024)

    moved = sum(
        sizes.evaluate(work.sections[section].moved, values)
        for section in (Section.LOSS_FORWARD, Section.LOSS_BACKWARD)
    )

    assert moved / (2 * 1024 * model.vocab_size) == pytest.approx(36, rel=0.06)


def test_autocast_launches_its_casts() -> None:
    """Under autocast inputs and weights of every product are cast first."""
    plain, cast = (
        work_of("llama-3.2-1b", replace(WORKLOAD, precision=POLICIES[name])).forward.kernels
        for name in ("bf16", "amp_bf16")
    )

    assert cast - plain == pytest.approx(10 * 16, rel=0.05)


def test_a_pass_without_gradients_launches_a_forward() -> None:
    """What serving launches is training's forward, and nothing else."""
    model = a_model("llama-3.2-1b")

    work = count_forward_work(model, dtype=DType.BF16, attention=Attention.SDPA)

    assert set(work.sections) == {Section.FORWARD}
    assert work.forward.kernels == pytest.approx(work_of("llama-3.2-1b").forward.kernels, rel=0.02)


def test_a_bias_reads_its_whole_outputs_gradient() -> None:
    """What a product with a bias sums over all rows is as much as its output, in each layer."""
    values, config = sizes.evaluate_monomials(2, 1024), load_config(resolve_model("llama-3.2-1b"))
    plain, biased = (
        architecture_from_config({**config, "attention_bias": bias}) for bias in (False, True)
    )
    without, with_bias = (
        sizes.evaluate(
            count_training_work(model, a_pass(model)).sections[Section.BACKWARD].moved, values
        )
        for model in (plain, biased)
    )

    spec = plain.spec
    heads = 2 * spec.num_attention_heads + 2 * spec.num_key_value_heads
    summed_bytes = 2 * 1024 * heads * spec.head_dim * 2
    assert with_bias - without == summed_bytes * plain.num_hidden_layers


def test_logits_are_cast_once_autocast_is_left() -> None:
    """Accelerate's clients read each logit in 16 bits and write it in 32."""
    values, model = sizes.evaluate_monomials(2, 1024), a_model("llama-3.2-1b")
    workload = replace(WORKLOAD, precision=POLICIES["amp_bf16"])
    client, loop = (
        count_training_work(model, a_pass(model, replace(workload, fp32_outputs=casts))).sections[
            Section.LOSS_FORWARD
        ]
        for casts in (True, False)
    )

    assert client.kernels - loop.kernels == 1
    moved = sizes.evaluate(client.moved, values) - sizes.evaluate(loop.moved, values)
    assert moved == 2 * 1024 * model.vocab_size * 6


def test_attention_over_one_broadcast_head_changes_its_scores_in_place() -> None:
    """A mask is added to fp32 scores, and rows without any key are filled: both read and write all
    scores beside the softmax and the cast of what it returns.
    """
    model = a_model("falcon-7b")
    work = count_forward_work(model, dtype=DType.BF16, attention=Attention.SDPA)
    batch, length = 8, 1024
    scores = batch * model.spec.num_attention_heads * length**2 * model.num_hidden_layers

    moved = sizes.evaluate(work.forward.moved, sizes.evaluate_monomials(batch, length))

    assert moved > (2 + 2 + 2) * 4 * scores


def test_rows_of_experts_fill_whole_tiles() -> None:
    """512 rows of each of 64 experts are 640 in the mean; of one token eight experts are met."""
    work = count_forward_work(a_model("olmoe-1b-7b"), dtype=DType.BF16, attention=Attention.SDPA)
    dense = work.block_weights - work.routed_weights

    filled = [work.count_filled_weights(tokens) - dense for tokens in (4096, 65536, 1)]

    assert work.routed_weights == 16 * 8 * 3 * 2048 * 1024
    assert filled[0] == pytest.approx(1.25 * work.routed_weights)
    assert filled[1] == pytest.approx((1 + 128 / 8192) * work.routed_weights)
    assert filled[2] == pytest.approx(128 * work.routed_weights, rel=0.07)


def test_a_dense_model_fills_no_tiles() -> None:
    """Without experts every token meets all weights, once."""
    work = count_forward_work(a_model("llama-3.2-1b"), dtype=DType.BF16, attention=Attention.SDPA)

    assert work.count_filled_weights(1000) == work.block_weights
