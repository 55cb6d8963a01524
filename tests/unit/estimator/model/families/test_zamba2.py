"""Zamba2: its parameters by hand, what its layers share, and small steps against traces of them."""

import pytest

from service.estimator.estimate import estimate
from service.estimator.memory.trained import select_trained_parameters
from service.estimator.memory.training_pass import build_training_pass
from service.estimator.model.families.registry import architecture_from_spec
from service.estimator.model.modules.ssm.shared_block import HybridLayer
from service.estimator.passes.recorder import log_training
from service.estimator.tape import sizes
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import (
    Attention,
    Checkpointing,
    Lora,
    Method,
    Quantization,
    Workload,
)
from tests.builders import a_device, a_serving, a_training
from tests.unit.estimator.model.families.recorded_peaks import a_family
from tests.unit.estimator.model.families.small_steps import SmallStep

_KINDS = ["linear_attention", "hybrid", "linear_attention", "hybrid", "hybrid", "linear_attention"]
_CONFIG: dict[str, object] = {
    "model_type": "zamba2",
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 6,
    "layers_block_type": _KINDS,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "intermediate_size": 96,
    "n_mamba_heads": 8,
    "mamba_ngroups": 2,
    "mamba_d_state": 16,
    "chunk_size": 16,
    "num_mem_blocks": 2,
    "adapter_rank": 8,
    "use_shared_attention_adapter": True,
    "use_mem_rope": True,
}
_PLAIN = _CONFIG | {
    "vocab_size": 128,
    "use_mem_rope": False,
    "use_shared_attention_adapter": False,
    "num_mem_blocks": 1,
    "num_key_value_heads": 2,
}
_STEPS = (
    SmallStep(name="one sequence", config=_CONFIG, forward=2_626_780, backward=2_675_732),
    SmallStep(name="two sequences", config=_CONFIG, batch=2, forward=5_247_300, backward=5_344_820),
    SmallStep(
        name="padded", config=_CONFIG, batch=2, padded=True, forward=5_247_300, backward=5_344_820
    ),
    SmallStep(
        name="checkpointed",
        config=_CONFIG,
        batch=2,
        checkpointed=True,
        forward=624_160,
        backward=1_887_706,
    ),
    SmallStep(
        name="fp32",
        config=_CONFIG,
        batch=2,
        precision="fp32",
        forward=5_969_220,
        backward=6_165_044,
    ),
    SmallStep(
        name="autocast",
        config=_CONFIG,
        batch=2,
        precision="amp_bf16",
        forward=5_142_276,
        backward=5_225_204,
    ),
    SmallStep(
        name="autocast, checkpointed",
        config=_CONFIG,
        batch=2,
        precision="amp_bf16",
        checkpointed=True,
        forward=1_310_496,
        backward=2_571_450,
    ),
    SmallStep(
        name="adapters", config=_CONFIG, batch=2, lora=4, forward=5_490_372, backward=5_581_748
    ),
    SmallStep(
        name="adapters, checkpointed",
        config=_CONFIG,
        batch=2,
        lora=4,
        checkpointed=True,
        forward=624_160,
        backward=1_514_874,
    ),
    SmallStep(
        name="one transformer",
        config=_PLAIN,
        batch=2,
        sequence=40,
        forward=8_113_152,
        backward=8_003_144,
    ),
    SmallStep(
        name="one transformer, checkpointed",
        config=_PLAIN,
        batch=2,
        sequence=40,
        checkpointed=True,
        forward=938_080,
        backward=2_247_976,
    ),
)
_MIXER = 64 * (128 + 192 + 8) + 5 * 192 + 3 * 8 + 128 * 64
"""Elements of one mixer: eight heads of sixteen, B and C in two groups of sixteen, four positions
and a bias convolved.
"""
_TRANSFORMER_LINEARS = 3 * 128 * 128 + 128 * 64 + 64 * 192 + 96 * 64
_SLOT = 3 * 8 * (128 + 128) + 8 * (64 + 192)


@pytest.mark.parametrize("step", _STEPS, ids=lambda step: step.name)
def test_a_small_step_is_what_was_traced(step: SmallStep) -> None:
    """Both passes peak where the trace does, shared gradients and all."""
    assert step.estimated() == pytest.approx((step.forward, step.backward), rel=1e-4)


@pytest.mark.parametrize(
    ("config", "sequences", "prompt", "dtype", "traced", "cache"),
    [
        (_CONFIG, 1, 24, DType.BF16, (379_456, 133_492), 98_304),
        (_CONFIG, 2, 24, DType.FP32, (928_416, 386_120), 294_912),
        (_PLAIN | {"vocab_size": 512}, 2, 24, DType.BF16, (715_680, 226_752), 156_672),
    ],
)
def test_a_prompt_and_its_tokens_need_what_was_traced(
    config: dict[str, object],
    sequences: int,
    prompt: int,
    dtype: DType,
    traced: tuple[int, int],
    cache: int,
) -> None:
    """Prefill, decode, and what the cache objects hold: states of every layer, keys and values of
    the hybrid ones.
    """
    workload = a_serving(
        num_sequences=sequences,
        prompt_tokens=prompt,
        output_tokens=2,
        weight_dtype=dtype,
        kv_cache_dtype=dtype,
        attention=Attention.EAGER,
    )

    answer = estimate(a_family(**config), workload, layout=Layout(), device=a_device())

    instants = {instant.name: instant.allocated_bytes for instant in answer.instants}
    assert (instants["prefill"] - instants["load"], instants["decode"] - instants["load"]) == traced
    assert answer.serving is not None
    assert answer.serving.kv_cache_bytes == cache


def test_a_checkpointed_step_leaves_nothing_behind() -> None:
    """All but gradients is gone at its end, what inner checkpoints and the copy of the embeddings
    held too.
    """
    left = [_left(checkpointing) for checkpointing in (Checkpointing.NONE, Checkpointing.FULL)]

    assert left[0] == left[1]


def _left(checkpointing: Checkpointing) -> int:
    workload, model = a_training(activation_checkpointing=checkpointing), a_family(**_CONFIG)
    events = log_training(model, build_training_pass(model, workload, Layout()))
    values = sizes.evaluate_monomials(workload.micro_batch_size, workload.sequence_length)
    each = [sizes.evaluate(events.sizes[kind], values) for kind in events.kinds]
    return sum(each[index] if index >= 0 else -each[~index] for index in events.order)


def test_parameters_are_counted_once() -> None:
    """Two transformers for three hybrid layers, each of which has a linear layer, a mixer and
    adapters of its own.
    """
    counts = a_family(**_CONFIG).parameter_counts()

    assert counts.total == 403_792
    assert counts.by_module["ssm"] == 6 * _MIXER
    assert (
        counts.by_module["attention"] + counts.by_module["mlp"]
        == 2 * _TRANSFORMER_LINEARS + 3 * _SLOT
    )
    assert counts.by_module["other"] == 3 * 64 * 64


def test_the_defaults_are_those_of_the_library() -> None:
    """A config without numbers is the 2.7B model of ``Zamba2Config()``; the 7B one has two
    transformers in turn.
    """
    kinds = (["linear_attention"] * 5 + ["hybrid"]) * 13 + ["linear_attention"] * 3
    larger = a_family(
        model_type="zamba2",
        hidden_size=3584,
        num_hidden_layers=81,
        layers_block_type=kinds,
        num_mem_blocks=2,
        n_mamba_heads=112,
        mamba_ngroups=2,
        use_mem_rope=True,
    )

    assert a_family(model_type="zamba2").parameter_counts().total == 2_481_848_336
    assert larger.parameter_counts().total == 7_356_749_648


def test_a_cut_model_has_the_slots_of_its_own_layers() -> None:
    """Of four layers two are hybrid: no transformer comes round again."""
    cut = a_family(**_CONFIG).with_layers(4)

    hybrids = [block for block, _ in cut.blocks if isinstance(block, HybridLayer)]
    assert [layer.owns for layer in hybrids] == [True, True]
    assert not cut.never_trained
    assert architecture_from_spec(cut.describe()).parameter_counts() == cut.parameter_counts()


def test_adapters_on_the_slots_of_other_layers_are_idle() -> None:
    """PEFT wraps every layer's copy of a transformer: eight layers of another's slot carry adapters
    that nothing reads.
    """
    workload = a_training(method=Method.LORA, lora=Lora(rank=4))

    trained = select_trained_parameters(a_family(**_CONFIG), workload)

    unread = 3 * (128 + 8 + 8 + 128) + (64 + 8 + 8 + 192)
    assert trained.idle == 2 * 4 * unread
    assert trained.trained + trained.idle == 53_824


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tie_word_embeddings": False}, "tie_word_embeddings"),
        ({"layers_block_type": ["hybrid"]}, "layers_block_type"),
        ({"layers_block_type": ["attention"] * 6}, "layers_block_type"),
        ({"n_mamba_heads": 7}, "n_mamba_heads"),
        ({"mamba_ngroups": 3}, "mamba_ngroups"),
        ({"num_key_value_heads": 2}, "num_key_value_heads"),
        ({"num_attention_heads": 3}, "num_attention_heads"),
    ],
)
def test_what_cannot_be_built_is_refused(change: dict[str, object], field: str) -> None:
    """The refusal names the field of the config."""
    with pytest.raises(EstimatorError) as refused:
        a_family(**_CONFIG | change)

    assert getattr(refused.value, "field", None) == field


@pytest.mark.parametrize(
    ("workload", "layout", "field"),
    [
        (
            a_training(),
            Layout(sharding=Sharding.FSDP2, zero_stage=3, data_parallel=4),
            "layout.sharding",
        ),
        (a_training(method=Method.QLORA, lora=Lora(rank=4)), Layout(), "workload.method"),
        (a_serving(quantization=Quantization.NF4), Layout(), "workload.quantization"),
        (
            a_training(method=Method.LORA, lora=Lora(rank=4, targets=("0",))),
            Layout(),
            "workload.lora.target_modules",
        ),
    ],
)
def test_what_parts_shared_weights_has_no_term(
    workload: Workload, layout: Layout, field: str
) -> None:
    """Sharding by layers and quantised weights are refused by the word that asks for them, and so
    is a place in a list.
    """
    with pytest.raises(EstimatorError) as refused:
        estimate(a_family(**_CONFIG), workload, layout=layout, device=a_device())

    assert getattr(refused.value, "field", None) == field
