"""Adapters on stacks of experts and on state-space mixers, against traces of small models and
PEFT's own rules.
"""

import pytest

from service.estimator.memory.trained import select_trained_parameters
from service.estimator.rules.transformers import check_in_transformers
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Lora, Method
from tests.builders import a_training
from tests.unit.estimator.model.families.recorded_peaks import a_family
from tests.unit.estimator.model.families.small_steps import SmallStep

_SHAPE: dict[str, object] = {
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_experts_per_tok": 2,
}
_QWEN3 = _SHAPE | {
    "model_type": "qwen3_moe",
    "head_dim": 16,
    "intermediate_size": 96,
    "moe_intermediate_size": 48,
    "num_experts": 8,
    "norm_topk_prob": True,
}
_MIXTRAL = _SHAPE | {"model_type": "mixtral", "intermediate_size": 96, "num_local_experts": 8}
_GLM4 = _SHAPE | {
    "model_type": "glm4_moe",
    "head_dim": 16,
    "intermediate_size": 96,
    "moe_intermediate_size": 48,
    "n_routed_experts": 8,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
}
_QWEN2 = _SHAPE | {
    "model_type": "qwen2_moe",
    "intermediate_size": 96,
    "moe_intermediate_size": 48,
    "shared_expert_intermediate_size": 80,
    "num_experts": 8,
}
_MAMBA: dict[str, object] = {
    "model_type": "mamba",
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 3,
}
_JAMBA = _SHAPE | {
    "model_type": "jamba",
    "num_hidden_layers": 4,
    "intermediate_size": 96,
    "num_experts": 8,
    "attn_layer_period": 4,
    "attn_layer_offset": 2,
    "mamba_dt_rank": 8,
}
_MIXER = ("in_proj", "x_proj", "dt_proj")


def _step(
    name: str, config: dict[str, object], forward: int, backward: int, **changes: object
) -> SmallStep:
    given: dict[str, object] = {"batch": 2, "sequence": 32, "lora": 4}
    return SmallStep(
        name=name,
        config=config,
        forward=forward,
        backward=backward,
        **(given | changes),  # type: ignore[arg-type]  # each change has the type of its field
    )


_STEPS = (
    _step("qwen3_moe", _QWEN3, 1_767_544, 1_889_384),
    _step("qwen3_moe, PEFT's default alpha as rank", _QWEN3, 1_862_776, 1_984_616, lora=8),
    _step("qwen3_moe, checkpointed", _QWEN3, 384_536, 752_168, checkpointed=True),
    _step("qwen3_moe, fp32", _QWEN3, 2_272_120, 2_516_840, precision="fp32"),
    _step("mixtral", _MIXTRAL, 2_325_880, 2_447_720),
    _step("mixtral, autocast", _MIXTRAL, 3_515_960, 3_628_072, precision="amp_bf16"),
    _step("glm4_moe", _GLM4, 1_507_416, 1_629_256),
    _step("qwen2_moe, of which nothing is merged", _QWEN2, 1_386_232, 1_508_072),
    _step("mamba", _MAMBA, 5_159_424, 5_938_184, sequence=24, targets=_MIXER),
    _step("jamba", _JAMBA, 5_593_568, 6_322_216, sequence=24),
)


@pytest.mark.parametrize("step", _STEPS, ids=lambda step: step.name)
def test_a_small_step_is_what_was_traced(step: SmallStep) -> None:
    """Both passes peak within a thousandth of the trace: every stack plus its update is a tensor of
    its own.
    """
    assert step.estimated() == pytest.approx((step.forward, step.backward), rel=0.001)


def test_gate_and_up_share_an_adapter_of_twice_the_rank() -> None:
    """Attention, and per layer a router, eight experts' gate_up at rank 8 and their down at rank
    4.
    """
    attention = 4 * ((64 + 64) + 2 * (64 + 32) + (64 + 64))
    experts = 8 * (8 * (64 + 96) + 4 * (48 + 64))

    trained = select_trained_parameters(
        a_family(**_QWEN3), a_training(method=Method.LORA, lora=Lora(rank=4))
    )

    assert trained.trained == 3 * (attention + 4 * (64 + 8) + experts)


def test_words_of_merged_layers_name_no_linear_layer() -> None:
    """PEFT takes down_proj for the stack: the dense layer of that name stays as it is."""
    lora = Lora(rank=4, targets=("down_proj",))

    trained = select_trained_parameters(
        a_family(**_GLM4), a_training(method=Method.LORA, lora=lora)
    )

    assert trained.trained == 2 * 8 * 4 * (48 + 64)


def test_an_adapter_that_nothing_reads_is_idle() -> None:
    """The mixer multiplies by dt_proj's own weight: its adapter is stored, without gradients or
    states.
    """
    lora = Lora(rank=4, targets=_MIXER)

    trained = select_trained_parameters(
        a_family(**_MAMBA), a_training(method=Method.LORA, lora=lora)
    )

    assert trained.idle == 3 * 4 * (4 + 128)
    assert trained.trained == 3 * 4 * ((64 + 256) + (128 + 4 + 2 * 16))


@pytest.mark.parametrize(
    ("config", "targets", "said"),
    [
        (_MAMBA, None, "PEFT adapts no out_proj of mamba"),
        (_MAMBA, ("in_proj", "out_proj"), "PEFT adapts no out_proj of mamba"),
        (
            _QWEN3,
            ("q_proj", "up_proj"),
            "up_proj is one parameter with the other of gate_proj and up_proj",
        ),
        (_QWEN3, ("experts",), "target_modules names 'experts'"),
    ],
)
def test_targets_that_peft_cannot_adapt_are_refused(
    config: dict[str, object], targets: tuple[str, ...] | None, said: str
) -> None:
    """What raises in PEFT is refused in its words."""
    workload = a_training(precision="bf16", method=Method.LORA, lora=Lora(rank=4, targets=targets))

    with pytest.raises(InvalidInputError) as refused:
        check_in_transformers(a_family(**config), workload, Layout())

    assert refused.value.field == "workload.lora.target_modules"
    assert said in refused.value.message


def test_dora_on_stacks_is_refused() -> None:
    """PEFT's wrapper of parameters takes no variant; attention alone can have one."""
    model = a_family(**_QWEN3)
    everywhere, attention = (
        Lora(rank=4, variant="dora", targets=targets) for targets in (None, ("q_proj",))
    )

    with pytest.raises(InvalidInputError) as refused:
        check_in_transformers(
            model, a_training(precision="bf16", method=Method.LORA, lora=everywhere), Layout()
        )
    check_in_transformers(
        model, a_training(precision="bf16", method=Method.LORA, lora=attention), Layout()
    )

    assert "no DoRA on merged parameters of qwen3_moe" in refused.value.message


def test_a_router_that_is_a_linear_layer_is_refused() -> None:
    """Phi-MoE's router is a linear layer that returns a tuple: all-linear names it and forward
    fails.
    """
    config = _SHAPE | {"model_type": "phimoe", "intermediate_size": 96, "num_local_experts": 8}

    with pytest.raises(InvalidInputError) as refused:
        check_in_transformers(
            a_family(**config),
            a_training(precision="bf16", method=Method.LORA, lora=Lora(rank=4)),
            Layout(),
        )

    assert refused.value.field == "workload.lora.target_modules"


def test_merged_parameters_take_no_dropout() -> None:
    """PEFT's wrapper of them refuses it; attention's layers are adapted by others."""
    model = a_family(**_QWEN3)
    everywhere, attention = (Lora(targets=targets, dropout=0.05) for targets in (None, ("q_proj",)))

    with pytest.raises(InvalidInputError, match="say dropout 0, or name target_modules") as refused:
        check_in_transformers(model, a_training(method=Method.LORA, lora=everywhere), Layout())
    check_in_transformers(model, a_training(method=Method.LORA, lora=attention), Layout())

    assert refused.value.field == "workload.lora.dropout"
