"""Few layers of every kind decide the whole model, and a config can say each slice."""

from collections.abc import Mapping

import pytest

from service.catalog.models import list_models, load_architecture, load_config, resolve_model
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.probing.lines import is_determined
from service.probing.slices import Slice, find_check_slice, iter_slicings
from service.probing.stack import get_layer_stack, keep_layers
from worker.probes.models.build import build_hf_config

UNREADABLE_CUTS = {"llama4_text"}
"""The estimator reads the published patterns of these only, and a slice has another."""


def catalogue() -> dict[str, tuple[Architecture, Mapping[str, object]]]:
    """Return one model of every family in the catalogue."""
    return {
        entry.model_type: (load_architecture(entry), load_config(entry))
        for entry in list_models()
        if entry.supported
    }


def slices_of(model: Architecture) -> list[Slice]:
    """Return every slice of every slicing, and those that check them."""
    found = list(iter_slicings(model, adapted=False))
    checks = [find_check_slice(model, slices) for slices in found]
    return [one for slices in found for one in slices] + [
        check for check in checks if check is not None
    ]


def test_every_model_of_the_catalogue_is_decided_by_less_than_itself() -> None:
    """Layers of each kind are told apart, and no slice is the model itself."""
    for model, _ in catalogue().values():
        stack = get_layer_stack(model)
        for slices in iter_slicings(model, adapted=False):
            assert is_determined(
                [[stack.kinds[layer] for layer in one.layers] for one in slices], stack.kinds
            )
            assert all(len(one.layers) < len(stack.layers) for one in slices)


def test_a_config_says_every_slice() -> None:
    """What transformers builds from the cut config has the parameters and the buffers of the layers
    that were kept.
    """
    for family, (model, config) in catalogue().items():
        plain = {name: value for name, value in config.items() if name != "quantization_config"}
        for one in slices_of(model) if family not in UNREADABLE_CUTS else ():
            built = build_hf_config(plain, one.layers).to_dict()
            head = {"architectures": config.get("architectures")}
            cut, kept = architecture_from_config(built | head), keep_layers(model, one.layers)

            assert (cut.counts.total, cut.buffer_bytes) == (kept.counts.total, kept.buffer_bytes), (
                family,
                one,
            )
            assert len(cut.blocks) == len(kept.blocks), (family, one)


@pytest.mark.parametrize(
    ("name", "slices"),
    [
        ("llama-2-7b", [(0, 31), (0, 1, 31)]),
        ("deepseek-v2-lite", [(0, 1, 26), (0, 1, 2, 26)]),
        ("gemma-3-4b", [(0, 5, 11, 33), (0, 1, 5, 11, 33), (0, 5, 11, 17, 33)]),
        ("whisper-tiny", [(0, 1, 4, 7), (0, 1, 2, 4, 7), (0, 1, 4, 5, 7)]),
    ],
)
def test_two_of_each_kind_and_one_more_of_each(name: str, slices: list[tuple[int, ...]]) -> None:
    """The first and the last layer stay; a kind that has one layer has no slope."""
    model = load_architecture(resolve_model(name))

    assert [one.layers for one in next(iter_slicings(model, adapted=True))] == slices


def test_neighbours_where_a_period_says_the_kinds() -> None:
    """Jamba's config names its layers by two periods, which only layers that stand together can
    keep.
    """
    model = load_architecture(resolve_model("jamba-v0.1"))

    for one in slices_of(model):
        assert one.layers == tuple(range(one.layers[0], one.layers[-1] + 1))
