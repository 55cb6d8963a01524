"""State-space mixers, against terms worked out by hand from what each operation keeps.

h hidden, d channels, n states per channel, r numbers that a step is made of.
"""

from service.estimator.model.families.registry import architecture_from_spec
from tests.builders import a_training
from tests.unit.estimator.model.families.recorded_peaks import PER_TOKEN, a_family, added_by_a_layer

_MAMBA: dict[str, object] = {
    "model_type": "mamba",
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 4,
}
_H, _D, _N, _R = 64, 128, 16, 4


def test_a_mixer_keeps_its_states_of_every_position() -> None:
    """Decay, input and state are kept in fp32 for every channel and state, and the state once more
    as it is read.
    """
    norm = 4 * _H + 2 * _H + 2 * _H + 4
    projected, convolved, selected = 4 * _D, 2 * _D + 2 * _D, 2 * (_R + 2 * _N) + 4 * _N
    steps, scanned, gated = (
        2 * _D + 2 * _D,
        4 * _D + (4 + 4 + 4 + 2) * _D * _N,
        4 * _D + 2 * _D + 2 * _D,
    )

    kept = added_by_a_layer(a_family(**_MAMBA), a_training(precision="bf16", micro_batch_size=1))

    assert kept[PER_TOKEN] == norm + projected + convolved + selected + steps + scanned + gated


def test_the_mixer_is_counted() -> None:
    """Entry, convolution, selection, step, decay, skip and output (arXiv:2312.00752, section
    3.4).
    """
    mixer = _H * 2 * _D + 4 * _D + _D + _D * (_R + 2 * _N) + _R * _D + _D + _D * _N + _D + _D * _H

    assert a_family(**_MAMBA).parameter_counts().by_module["ssm"] == 4 * mixer


def test_a_description_reads_back() -> None:
    """``describe`` and ``architecture_from_spec`` undo each other."""
    model = a_family(**_MAMBA)

    assert architecture_from_spec(model.describe()).fingerprint() == model.fingerprint()


def test_several_sequences_copy_what_one_only_views() -> None:
    """The channels of each token lie apart after the convolution: the next product copies them
    unless there is one sequence.
    """
    one, two = (
        added_by_a_layer(a_family(**_MAMBA), a_training(precision="bf16", micro_batch_size=batch))[
            PER_TOKEN
        ]
        for batch in (1, 2)
    )

    assert two - one == 2 * _D


def test_falcon_mamba_normalises_what_a_token_selects() -> None:
    """The norms keep step, B and C in fp32 and a root of each; step and C are kept as they leave,
    nothing as it came.
    """
    plain = added_by_a_layer(a_family(**_MAMBA), a_training(precision="bf16", micro_batch_size=1))[
        PER_TOKEN
    ]
    model = a_family(**_MAMBA | {"model_type": "falcon_mamba"})
    upcast, roots, given, raw = 4 * (_R + 2 * _N), 3 * 4, 2 * _R + 2 * _N, 2 * (_R + 2 * _N)

    kept = added_by_a_layer(model, a_training(precision="bf16", micro_batch_size=1))[PER_TOKEN]

    assert kept - plain == upcast + roots + given - raw
    assert model.buffer_elements == 4 * (_D + 2 * _N)
    assert model.with_layers(1).buffer_elements == _D + 2 * _N
