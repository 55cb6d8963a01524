"""What two probes make of a third size: of answers that are right, and of answers that are wrong on
purpose.
"""

from tests.accuracy.after.probes import curves, readings, with_relu
from tests.accuracy.after.report import MISTAKES, comparisons, markdown, text
from tests.accuracy.after.scoring import held_out


def test_two_probes_leave_right_answers_alone() -> None:
    """Held-out peaks of many families: a thousandth at the median and a hundredth at 95 % are the
    floors.
    """
    found = comparisons()["as it is"]

    assert found.num_curves >= 12
    assert found.num_held >= 24
    assert found.after.median <= 0.001
    assert found.after.p95 <= 0.01
    assert found.after.median <= found.before.median + 1e-6


def test_two_probes_mend_wrong_answers() -> None:
    """Whatever is wrong with a model, a third size is answered to half a hundredth, from a tenth
    and more before.
    """
    wrong = {name: found for name, found in comparisons().items() if MISTAKES[name] is not None}

    assert len(wrong) == 2
    for name, found in wrong.items():
        assert found.before.p95 > 0.1, name
        assert found.after.median <= 0.0001, name
        assert found.after.p95 <= 0.005, name


def test_an_unknown_activation_is_met_to_a_thousandth() -> None:
    """A model whose every size is off by a twentieth is answered to a thousandth after two
    probes.
    """
    held = [
        one
        for one in held_out(curves(with_relu))
        if one.curve.startswith("llama-3.2-1b ") and abs(one.before) > 0.03
    ]

    assert held
    assert max(abs(one.after) for one in held) <= 0.001


def test_readings_say_where_they_come_from() -> None:
    """Each names its source, its date, how it was made and the releases that it ran."""
    assert all(prior.source and prior.method and prior.date.year >= 2026 for prior in readings())
    assert all(
        {"torch", "transformers"} <= prior.result["environment"].keys() for prior in readings()
    )


def test_the_table_has_a_line_for_each_estimator() -> None:
    """As it is, and with each mistake, in a terminal and in the documentation."""
    assert all(name in text() and f"| {name} |" in markdown() for name in MISTAKES)
