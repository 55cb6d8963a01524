"""Weights, gradients, master copies and optimizer states: the policies by name, and how ZeRO
spreads them.
"""

from typing import Any

import pytest

from service.estimator.memory.fsdp_buffers import Buckets, compute_buckets
from service.estimator.memory.optimizers.table import MODELLED, get_optimizer
from service.estimator.memory.setup import resolve_setup
from service.estimator.memory.states import TrainStates, compute_train_states
from service.estimator.memory.trained import iter_adapter_weights, select_trained_parameters
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.optimizers import OptimizerName
from service.estimator.values.precision import POLICIES, Precision
from service.estimator.values.workload import Lora, Method, TrainWorkload
from tests.builders import a_gpt2, a_model, a_sharded_layout, a_training
from tests.tiny_models import tiny_config

_MODEL = a_model()
_N = _MODEL.parameter_counts().total
_FINAL_NORM, _HEAD = (weight for weight, _ in list(_MODEL.weights())[-2:])


def _states(workload: TrainWorkload, layout: Layout | None = None) -> TrainStates:
    return compute_train_states(resolve_setup(_MODEL, workload, layout or Layout()))


def _lora() -> TrainWorkload:
    return a_training(method=Method.LORA, lora=Lora(rank=4))


@pytest.mark.parametrize(
    ("policy", "bytes_per_param"),
    [
        ("fp32", 4 + 4 + 8),
        ("bf16", 2 + 2 + 4),
        ("fp16", 2 + 2 + 4),
        ("amp_bf16", 4 + 4 + 8),
        ("amp_fp16", 4 + 4 + 8),
        ("bf16_mixed", 2 + 2 + 4 + 8),
        ("fp16_mixed", 2 + 2 + 4 + 8),
        ("megatron_bf16", 2 + 4 + 4 + 8),
        ("deepspeed_bf16", 2 + 2 + 4 + 4 + 8),
    ],
)
def test_a_policy_is_a_number_of_bytes_per_parameter(policy: str, bytes_per_param: int) -> None:
    """16, 18 and 20 are three named choices, and the states of a whole model add up to them before
    the step.
    """
    states = _states(a_training(precision=policy))

    assert POLICIES[policy].bytes_per_param == bytes_per_param
    assert states.resident + states.gradients - states.buffers == _N * bytes_per_param


def test_main_gradients_of_a_custom_policy_live_for_the_step_alone() -> None:
    """Gradients made before the step are neither resident nor part of backward."""
    custom = Precision(
        name="custom",
        param_dtype=DType.BF16,
        compute_dtype=DType.BF16,
        grad_dtype=DType.BF16,
        optimizer_dtype=DType.FP32,
        master_dtype=DType.FP32,
        main_grad_dtype=DType.FP32,
    )
    workload = TrainWorkload(sequence_length=8, precision=custom)

    states = _states(workload)

    assert states.step_main_gradients == 4 * _N
    assert states.persistent_main_gradients == 0
    assert states.gradients == 2 * _N


def test_masters_copy_what_nothing_reads() -> None:
    """An optimizer copies all that it is given when it is made; a tower without images gets no
    gradient and no moments.
    """
    model = architecture_from_config(tiny_config("llava"))
    workload = a_training(precision="bf16_mixed")
    trained = select_trained_parameters(model, workload)

    states = compute_train_states(resolve_setup(model, workload, Layout()))

    assert trained.trained < model.counts.total
    assert states.master_weights == 4 * model.counts.total
    assert states.optimizer_states == 8 * trained.trained


@pytest.mark.parametrize(
    ("stage", "weights", "gradients", "optimizer"),
    [(0, 1, 1, 1), (1, 1, 1, 8), (2, 1, 8, 8), (3, 8, 8, 8)],
)
def test_a_stage_spreads_its_part_and_those_before_it(
    stage: int, weights: int, gradients: int, optimizer: int
) -> None:
    """Stage 1 shards optimizer states and master weights, stage 2 gradients too, stage 3 weights
    too (arXiv:1910.02054).
    """
    states = _states(a_training(), a_sharded_layout(8, stage=stage))

    assert states.weights == 2 * _N // weights
    assert states.gradients == 2 * _N // gradients
    assert states.master_weights == 4 * _N // optimizer
    assert states.optimizer_states == 8 * _N // optimizer


def test_persistent_main_gradients_are_spread_with_the_gradients() -> None:
    """DeepSpeed's fp32 accumulation follows the gradients of its stage; Megatron's main buffer is
    the gradient itself.
    """
    deepspeed = _states(a_training(precision="deepspeed_bf16"), a_sharded_layout(8, stage=2))
    megatron = _states(
        a_training(precision="megatron_bf16"),
        a_sharded_layout(8, stage=1, sharding=Sharding.MEGATRON),
    )

    assert deepspeed.persistent_main_gradients == 4 * _N // 8
    assert megatron.gradients == 0
    assert megatron.persistent_main_gradients == 4 * _N


def test_deepspeed_casts_a_partition_of_gradients_for_its_step() -> None:
    """18 bytes per parameter are alive at its step, one partition's in stage 2 (DeepSpeed's own
    estimate: 2P + 18P / N).
    """
    states = _states(a_training(), a_sharded_layout(8, stage=2))

    assert states.step_main_gradients == 4 * _N // 8
    assert (
        states.resident + states.gradients + states.step_main_gradients - states.buffers
        == 2 * _N + 18 * _N // 8
    )
    assert (
        _states(a_training(precision="bf16"), a_sharded_layout(8, stage=2)).step_main_gradients == 0
    )


def test_deepspeed_without_zero_adds_bf16_gradients_into_a_flat_one() -> None:
    """Every rank has the fp32 gradient of all weights, and an eighth of masters and states."""
    layout = Layout(data_parallel=8, sharding=Sharding.DEEPSPEED)
    states = _states(a_training(precision="deepspeed_bf16"), layout)

    assert states.persistent_main_gradients == 4 * _N
    assert (states.master_weights, states.optimizer_states) == (4 * _N // 8, 8 * _N // 8)
    assert states.gradients == 2 * _N
    assert states.step_main_gradients == 0


def test_deepspeed_without_zero_flattens_fp16_gradients_for_its_step() -> None:
    """Masters and states are whole, and an fp32 gradient comes beside them."""
    layout = Layout(data_parallel=8, sharding=Sharding.DEEPSPEED)
    states = _states(a_training(precision="fp16_mixed"), layout)

    assert states.step_main_gradients == states.master_weights == 4 * _N
    assert states.optimizer_states == 8 * _N


@pytest.mark.parametrize(
    ("optimizer", "num_states", "temporaries", "counts"),
    [
        ("adamw", 2, _N, 0),
        ("adamw_fused", 2, 0, _MODEL.parameter_counts().num_tensors),
        ("adamw_loop", 2, 2 * _HEAD.numel + _FINAL_NORM.numel, 0),
        ("sgd", 0, 0, 0),
        ("sgd_momentum", 1, 0, 0),
    ],
)
def test_an_optimizer_keeps_its_states_and_needs_its_temporaries(
    optimizer: str, num_states: int, temporaries: int, counts: int
) -> None:
    """Foreach makes one temporary of the second moments' size, the loop two beside one before,
    fused none but counts.
    """
    states = _states(a_training(precision="fp32", optimizer=optimizer))

    assert states.optimizer_states == 4 * (num_states * _N + counts)
    assert states.step_temporaries == 4 * temporaries


def test_every_optimizer_of_the_contract_has_a_term() -> None:
    """The request's names are those of the table, and there are at least fourteen."""
    assert set(OptimizerName) == set(MODELLED)
    assert len(MODELLED) >= 14


def test_an_optimizer_without_a_term_is_refused() -> None:
    """What is not modelled says what is."""
    with pytest.raises(NotModelledError, match="adamw_fused") as refusal:
        get_optimizer("shampoo")

    assert refusal.value.field == "workload.optimizer"


def test_adapters_are_low_rank_pairs_on_every_linear_layer() -> None:
    """A rank-r adapter of an m x n layer has r (m + n) parameters (arXiv:2106.09685); the head has
    none.
    """
    per_layer = 4 * ((64 + 64) + 2 * (64 + 32) + (64 + 64) + 3 * (64 + 160))

    trained = select_trained_parameters(_MODEL, _lora())

    assert trained.trained == 4 * per_layer
    assert sum(count for _, count in trained.weights) == 4 * 7 * 2


def test_adapters_on_named_layers_alone() -> None:
    """Naming targets leaves all other layers without an adapter."""
    adapters = iter_adapter_weights(_MODEL, Lora(rank=4, targets=("q_proj", "v_proj")))

    assert [(weight.shape, count) for weight, count in adapters] == [
        ((4, 64), 4),
        ((64, 4), 4),
        ((4, 64), 4),
        ((32, 4), 4),
    ]


def test_lora_trains_fp32_adapters_on_a_frozen_base() -> None:
    """The base has neither gradients nor states nor a master copy; the adapters have all in
    fp32.
    """
    trained = select_trained_parameters(_MODEL, _lora()).trained

    states = _states(_lora())

    assert states.weights == 2 * _N
    assert states.adapters == states.gradients == 4 * trained
    assert states.optimizer_states == 8 * trained
    assert (
        states.master_weights == states.persistent_main_gradients == states.step_main_gradients == 0
    )


def test_rotary_frequencies_are_buffers_and_learned_positions_are_weights() -> None:
    """Two fp32 tables of half a head's width, or none."""
    assert a_model().buffer_bytes == 2 * 4 * 8
    assert a_gpt2().buffer_bytes == 0


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"main_grad_persistent": True}, "workload.precision.main_grad_persistent")],
)
def test_a_policy_that_contradicts_itself_is_refused(changes: dict[str, Any], field: str) -> None:
    """A persistent gradient that does not exist."""
    with pytest.raises(InvalidInputError) as refusal:
        Precision(
            name="custom",
            param_dtype=DType.BF16,
            compute_dtype=DType.BF16,
            grad_dtype=DType.BF16,
            optimizer_dtype=DType.BF16,
            **changes,
        )

    assert refusal.value.field == field


def test_buckets_are_deepspeeds_own() -> None:
    """Half a billion elements in the engine's format: for good in stage 3, in backward alone
    before, whatever is trained.
    """
    policy = POLICIES["bf16_mixed"]
    made = [
        compute_buckets(a_sharded_layout(2, stage=stage), policy, trained=10, param_bytes=4)
        for stage in range(4)
    ]

    assert made == [
        Buckets(),
        Buckets(backward=10**9),
        Buckets(backward=10**9),
        Buckets(resident=10**9),
    ]
    assert compute_buckets(Layout(data_parallel=2), policy, trained=10, param_bytes=4) == Buckets(
        resident=40
    )
    assert compute_buckets(Layout(), policy, trained=10, param_bytes=4) == Buckets()
