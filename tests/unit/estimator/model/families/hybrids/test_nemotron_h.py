"""Nemotron-H: its layers by their letters, its parameters by hand, and its states in engines."""

from dataclasses import replace

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.backends.paged_pool.activation_peak import find_shared_buffers
from service.estimator.backends.paged_pool.draft_heads import add_speculation
from service.estimator.backends.paged_pool.layer_caches import merge_caches, merge_states
from service.estimator.backends.paged_pool.rank_memory import build_ranks
from service.estimator.model.families.registry import architecture_from_spec
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.layers.single import SingleBlock
from service.estimator.model.modules.mlp.feedforward import FeedForward
from service.estimator.model.modules.mlp.plain_experts import LatentSparseFeedForward
from service.estimator.model.modules.ssm.mamba2 import Mamba2Mixer
from service.estimator.model.tensor_parallel.local import local_architecture
from service.estimator.model.tensor_parallel.split_plan import ENGINE
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.speculative import DraftHead, Speculative
from tests.tiny_models import tiny_config
from tests.unit.estimator.model.families.recorded_peaks import a_family

_CONFIG = tiny_config("nemotron_h")
_HIDDEN, _LATENT, _EXPERTS, _WIDTH, _SHARED = 128, 48, 4, 64, 96
_INNER, _CONVOLVED, _HEADS = 8 * 32, 8 * 32 + 2 * 2 * 16, 8
_MIXER = _HIDDEN * (_INNER + _CONVOLVED + _HEADS) + 5 * _CONVOLVED + 3 * _HEADS + _INNER * _HIDDEN
_KINDS = {
    "M": Mamba2Mixer,
    "-": FeedForward,
    "E": LatentSparseFeedForward,
    "*": Attention,
}


def test_each_letter_is_a_layer() -> None:
    """A pattern, the words of transformers' newer configs and those of its older ones agree."""
    words = {"M": "linear_attention", "-": "mlp", "E": "moe", "*": "full_attention"}
    older = words | {"M": "mamba", "*": "attention"}
    pattern = str(_CONFIG["hybrid_override_pattern"])
    model = a_family(**_CONFIG)
    layers = [model.blocks[kind][0] for kind in model.order]

    assert [type(layer.mixer) for layer in layers if isinstance(layer, SingleBlock)] == [
        _KINDS[letter] for letter in pattern
    ]
    for names in (words, older):
        listed = _CONFIG | {"layers_block_type": [names[letter] for letter in pattern]}
        assert a_family(**listed).describe() == model.describe()


def test_parts_are_counted() -> None:
    """Two mixers, and two layers of four experts of two matrices between latent projections."""
    counts = a_family(**_CONFIG).parameter_counts()

    assert counts.by_module["ssm"] == 2 * _MIXER
    assert counts.by_module["mlp_experts"] == 2 * _EXPERTS * 2 * _WIDTH * _LATENT
    assert counts.by_module["mlp_shared_expert"] == 2 * 2 * _SHARED * _HIDDEN
    assert counts.by_module["router"] == 2 * _EXPERTS * _HIDDEN
    assert counts.by_module["norm"] == 7 * _HIDDEN + 2 * _INNER


@pytest.mark.parametrize(
    ("word", "width"), [(None, 4), ("float32", 4), ("bfloat16", 2), ("auto", 2)]
)
def test_engines_keep_states_in_the_format_of_the_config(word: str | None, width: int) -> None:
    """Engines take fp32 where a config says nothing; inputs of a convolution have the weights'."""
    model = a_family(**_CONFIG, **({} if word is None else {"mamba_ssm_cache_dtype": word}))
    kinds = tuple(count for _, count in model.blocks)

    (state,) = merge_states(model, kinds, DType.BF16)
    (cache,) = merge_caches(model, kinds)

    assert (state.count, state.bytes) == (2, 3 * _CONVOLVED * 2 + _INNER * 16 * width)
    assert (cache.count, cache.elements_per_token) == (1, 2 * 2 * 32)


def test_ranks_share_experts_and_none_of_their_latent_space() -> None:
    """Both latent projections are whole on each rank (vLLM's ReplicatedLinear)."""
    plan = replace(ENGINE, splits_states=True)
    layer = local_architecture(a_family(**_CONFIG), 2, plan).blocks[2][0]

    shapes = {weight.name.removeprefix("mixer."): weight.shape for weight in layer.weights()}
    assert shapes["experts.up_proj"] == (_EXPERTS, _WIDTH // 2, _LATENT)
    assert shapes["shared_experts.up_proj.weight"] == (_SHARED // 2, _HIDDEN)
    assert shapes["fc1_latent_proj.weight"] == (_LATENT, _HIDDEN)


def test_experts_without_gates_take_narrower_buffers() -> None:
    """Each of two chosen experts has its width before and after the activation, in latents."""
    buffers = find_shared_buffers(a_family(**_CONFIG))

    assert buffers is not None
    assert buffers.buffers == 2 * (_WIDTH + _WIDTH)


def test_a_description_reads_back() -> None:
    """``describe`` and ``architecture_from_spec`` undo each other, cut or whole."""
    for model in (a_family(**_CONFIG), a_family(**_CONFIG).with_layers(3)):
        assert architecture_from_spec(model.describe()).fingerprint() == model.fingerprint()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"hybrid_override_pattern": "M-X"}, "hybrid_override_pattern"),
        ({"layers_block_type": ["mamba", "conv"]}, "layer_types"),
        ({"n_groups": 3}, "n_groups"),
        ({"topk_group": 2}, "n_group"),
        ({"n_shared_experts": 2}, "n_shared_experts"),
        (
            {"num_nextn_predict_layers": 1, "hybrid_override_pattern": "M-"},
            "mtp_layers_block_type",
        ),
        ({"mamba_ssm_cache_dtype": "int8"}, "mamba_ssm_cache_dtype"),
    ],
)
def test_what_cannot_be_built_is_refused(change: dict[str, object], field: str) -> None:
    """The refusal names the field of the config."""
    with pytest.raises(EstimatorError) as refused:
        a_family(**_CONFIG | change)

    assert getattr(refused.value, "field", None) == field


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("nemotron-3-super-120b-a12b", 123_611_012_096 - 120_668_687_360),
        ("nemotron-3-ultra-550b-a55b", 560_524_578_816 - 549_308_968_960),
    ],
)
def test_predictors_are_what_the_published_weights_have_beside_the_model(
    name: str, parameters: int
) -> None:
    """A step of multi-token prediction has attention and experts, a projection and three norms."""
    model = load_architecture(resolve_model(name))
    ranks = build_ranks(model, Layout(), scheme=None, dtype=DType.BF16)

    (plain,) = ranks
    (guessing,) = add_speculation(
        ranks,
        model,
        Speculative(num_tokens=1, head=DraftHead.MTP),
        Layout(),
        scheme=None,
        dtype=DType.BF16,
    )

    assert guessing.weight_bytes - plain.weight_bytes == 2 * parameters
    assert guessing.caches[0].count == plain.caches[0].count + 1
