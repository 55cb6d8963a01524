"""Falcon-H1: a mixer beside attention in each layer, its parameters by hand, and both caches."""

import pytest

from service.estimator.backends.paged_pool.layer_caches import merge_caches, merge_states
from service.estimator.model.families.registry import architecture_from_spec
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import EstimatorError
from tests.tiny_models import tiny_config
from tests.unit.estimator.model.families.recorded_peaks import a_family

_CONFIG = tiny_config("falcon_h1")
_HIDDEN, _INNER, _CONVOLVED, _HEADS = 128, 256, 256 + 2 * 16, 8
_MIXER = _HIDDEN * (_INNER + _CONVOLVED + _HEADS) + 5 * _CONVOLVED + 3 * _HEADS + _INNER * _HIDDEN


def test_parts_are_counted() -> None:
    """Each layer has a mixer and attention; the mixer has a norm where the config says so."""
    layers = int(str(_CONFIG["num_hidden_layers"]))
    plain = a_family(**_CONFIG).parameter_counts()
    normed = a_family(
        **_CONFIG, mamba_rms_norm=True, mamba_norm_before_gate=False
    ).parameter_counts()

    assert plain.by_module["ssm"] == layers * _MIXER
    assert plain.by_module["attention"] == layers * (2 * 4 + 2 * 2) * 32 * _HIDDEN
    assert plain.by_module["norm"] == (2 * layers + 1) * _HIDDEN
    assert normed.by_module["norm"] == plain.by_module["norm"] + layers * _INNER


def test_a_layer_has_a_cache_and_a_state() -> None:
    """Engines keep keys and values of a token and a state of the sequence, both of every layer."""
    model = a_family(**_CONFIG)
    layers = model.num_hidden_layers
    kinds = (layers,)

    (cache,) = merge_caches(model, kinds)
    (state,) = merge_states(model, kinds, DType.BF16)

    assert (cache.count, cache.elements_per_token) == (layers, 2 * 2 * 32)
    assert (state.count, state.bytes) == (layers, 2 * (3 * _CONVOLVED + _INNER * 16))


def test_channels_are_the_configs_or_expanded() -> None:
    """A null ``mamba_d_ssm`` is the expanded width; an absent one is 1,024."""
    config = {name: value for name, value in _CONFIG.items() if name != "mamba_d_ssm"}
    expanded = a_family(**config, mamba_d_ssm=None)
    absent = a_family(**config | {"mamba_d_head": "auto"})

    assert expanded.fingerprint() == a_family(**_CONFIG).fingerprint()
    assert absent.describe()["mixer_head_dim"] == 1024 // _HEADS


def test_a_description_reads_back() -> None:
    """``describe`` and ``architecture_from_spec`` undo each other."""
    model = a_family(**_CONFIG)

    assert architecture_from_spec(model.describe()).fingerprint() == model.fingerprint()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"mamba_rms_norm": True}, "mamba_norm_before_gate"),
        ({"mamba_n_groups": 3}, "mamba_n_groups"),
        ({"mamba_d_head": 12}, "mamba_n_heads"),
    ],
)
def test_what_cannot_be_built_is_refused(change: dict[str, object], field: str) -> None:
    """The refusal names the field of the config."""
    with pytest.raises(EstimatorError) as refused:
        a_family(**_CONFIG | change)

    assert getattr(refused.value, "field", None) == field
