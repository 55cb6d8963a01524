"""The alert rules: true to what /metrics shows, tested by promtool, explained in the operator
guide.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.observed import parse_names, render_all_metrics
from tests.promtool import promtool

ROOT = Path(__file__).resolve().parents[3]
RULES = ROOT / "deploy" / "prometheus"
GUIDE = (ROOT / "docs" / "operating.md").read_text()
METRIC = re.compile(r"\bheadroom_[a-z0-9_]+")


def alerts() -> dict[str, dict[str, Any]]:
    """Return every alert by its name."""
    groups = yaml.safe_load((RULES / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


@pytest.mark.parametrize("name", sorted(alerts()))
def test_an_alert_says_what_is_wrong_and_what_to_do(name: str) -> None:
    """Each has a summary, a description, a severity, and a section of the guide that its runbook
    points to.
    """
    rule = alerts()[name]
    note = rule["annotations"]

    assert note.keys() == {"summary", "description", "runbook"}
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert note["runbook"] == f"docs/operating.md#{name.lower()}"
    assert f"\n### {name}\n" in GUIDE


def test_rules_name_only_what_is_told() -> None:
    """A metric that was renamed would make its alert silent for ever."""
    told = parse_names(render_all_metrics())
    named = {name for rule in alerts().values() for name in METRIC.findall(rule["expr"])}

    assert len(named) > 10
    assert named - told == set()


def test_each_alert_is_tested_where_it_fires_and_where_it_does_not() -> None:
    """The tests for promtool have both for every alert."""
    tests = yaml.safe_load((RULES / "alerts_test.yml").read_text())["tests"]
    cases = [case for test in tests for case in test["alert_rule_test"]]

    assert {case["alertname"] for case in cases if case["exp_alerts"]} == set(alerts())
    assert {case["alertname"] for case in cases if not case["exp_alerts"]} == set(alerts())


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "alerts.yml"),
        ("test", "rules", "alerts_test.yml"),
        ("check", "config", "--syntax-only", "prometheus.yml"),
    ],
    ids=lambda arguments: "-".join(arguments[:2]),
)
def test_promtool_agrees(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules are valid, behave as their tests say, and the configuration is one."""
    monkeypatch.chdir(RULES)

    done = promtool(*arguments)

    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_told_is_in_good_form() -> None:
    """Names, types and help of everything that can be shown are as Prometheus wants them."""
    done = promtool("check", "metrics", text=render_all_metrics())

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
