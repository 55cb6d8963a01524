"""Rules of thumb beside an estimate, compared once for one figure."""

from service.planner.fit.rule_of_thumb import RuleBytes, RulesOfThumb

WEIGHTS = RuleBytes(name="2 bytes per parameter", bytes=100, why="weights alone", source="nobody")
ACTIVATIONS = RuleBytes(name="34sbh", bytes=30, our_bytes=60, why="one layer", source="nobody")


def test_every_figure_has_comparisons_of_its_own() -> None:
    """The same as long as the device's bytes are, and others where those change."""
    rules = RulesOfThumb((WEIGHTS, ACTIVATIONS))
    first, again, other = rules.compare(200), rules.compare(200), rules.compare(400)

    assert again is first
    assert [rule.off_by for rule in first] == [-0.5, -0.5]
    assert [rule.off_by for rule in other] == [-0.75, -0.5]
    assert rules.compare(200) is first
