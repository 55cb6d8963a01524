"""Patterns of modules' names, which anybody may bring in a config."""

import re
from collections.abc import Callable
from fnmatch import translate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimator.model.weights.name_patterns import MAX_CHARACTERS, is_any_named, is_named
from service.estimator.values.errors import InvalidConfigError

NAMES = (
    *("lm_head", "model.layers.0.self_attn.q_proj", "model.layers.1.mlp.gate", "model.layers.10"),
    *("model.layers.33.mlp.experts.3.up_proj", "vision_tower.blocks.0", "model-layers-0", "a-b.c"),
)


def match_as_transformers(pattern: str, name: str) -> bool:
    """Return what transformers' ``should_convert_module`` and compressed-tensors would."""
    if pattern.startswith("re:"):
        return re.match(pattern.removeprefix("re:"), name) is not None
    rule = rf"(?:{pattern})(?:(?<=\.)|(?=\.|$))"
    return name.endswith(pattern) or re.match(rule, name) is not None


@pytest.mark.parametrize(
    "pattern",
    [
        *("lm_head", "model.layers.0", "model.layers.1.", "", "-", "a-b", r"model.layers.\d+.mlp"),
        *("re:.*lm_head", "re:vision_tower.*", "re:.*mlp.gate$", r"re:.*\.(q|k|v)_proj$"),
        *(r"re:model\.layers\.(0|1|33)\.mlp.*", "re:.*l.*m.*p", "experts.*.gate"),
        *(f"re:{translate(glob)}" for glob in ("*self_attn*", "*m*l*p*g*", "model.layers.[0-9].*")),
        *(r"re:(?:.*\.)?lm_head", "re:^(?!.*experts).*$", r"re:(?i)MODEL\.layers\.\d+\.(mlp)\..*"),
    ],
)
def test_a_pattern_names_what_it_names_in_transformers(pattern: str) -> None:
    """Words are compared, patterns are those of ``re``."""
    assert [is_named(pattern, name) for name in NAMES] == [
        match_as_transformers(pattern, name) for name in NAMES
    ]


@pytest.mark.parametrize(
    "pattern",
    [
        *("re:(.+)+!", "(x+x+)+y", "re:(?:.?){22}!", "re:.*.*.*.*x", "re:(a|b|ab)*c"),
        *(f"re:{'.?' * 20}!", f"re:{'(a|a.)' * 24}!", "re:(?=(.+)+!)x", "re:(?>(.+)+!)x"),
        *(r"re:(.*)(?(1)(.+)+!)", r"re:(\w+\.)*!"),
    ],
)
def test_a_pattern_that_goes_over_a_name_again_and_again_is_refused(pattern: str) -> None:
    """Some of these take ``re`` hours for a name of thirty letters, and a process with it."""
    with pytest.raises(InvalidConfigError, match="again and again; write it with at most three"):
        is_named(pattern, "model.layers.0.self_attn.q_proj")


@pytest.mark.parametrize("pattern", ["re:(", "(", "re:*lm_head*", "re:(?P<a"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    """With the place, wherever it stands."""
    with pytest.raises(InvalidConfigError, match="in the modules that are not quantised is no pat"):
        is_named(pattern, "model.layers.0.self_attn.q_proj")


def test_a_long_pattern_is_refused() -> None:
    """Before it is compiled."""
    with pytest.raises(InvalidConfigError, match="has 1,001 characters; a pattern has at most"):
        is_named(f"re:{'x' * (MAX_CHARACTERS + 1)}", "lm_head")


_WORDS = st.text("ab.", max_size=5)
_PATTERNS = st.lists(_WORDS | st.sampled_from(("re:.*b", "a.*", "re:(", "(a|b).a")), max_size=6)


@given(patterns=_PATTERNS.map(tuple), names=st.lists(_WORDS, max_size=2))
def test_many_patterns_name_what_each_in_turn_does(
    patterns: tuple[str, ...], names: list[str]
) -> None:
    """Also where one of them is refused: of those that come after a match, nobody hears."""

    def answer(ask: Callable[[], bool]) -> bool | str:
        try:
            return ask()
        except InvalidConfigError as error:
            return str(error)

    assert answer(lambda: is_any_named(patterns, names)) == answer(
        lambda: any(is_named(pattern, name) for pattern in patterns for name in names)
    )
