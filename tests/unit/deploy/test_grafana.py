"""The dashboards: panels that explain themselves, queries over what is really there, and no data
source by its number.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.observed import parse_names, render_all_metrics
from tests.promtool import promtool

ROOT = Path(__file__).resolve().parents[3]
GRAFANA = ROOT / "deploy" / "grafana"
DASHBOARDS = sorted((GRAFANA / "dashboards").glob("*.json"))
SOURCES = {"prometheus": "prometheus", "grafana-postgresql-datasource": "postgres"}
METRIC = re.compile(r"\bheadroom_[a-z0-9_]+")


def read(path: Path) -> dict[str, Any]:
    """Return a dashboard."""
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def panels(path: Path) -> list[dict[str, Any]]:
    """Return the panels that show something."""
    return [panel for panel in read(path)["panels"] if panel["type"] != "row"]


def expressions(path: Path) -> Iterator[str]:
    """Yield every PromQL expression, of panels and of variables."""
    for panel in panels(path):
        yield from (target["expr"] for target in panel["targets"] if "expr" in target)
    for variable in read(path)["templating"]["list"]:
        if variable["type"] == "query" and variable["datasource"]["type"] == "prometheus":
            yield re.sub(r"label_values\((\w+), \w+\)", r"\1", variable["query"])


def test_the_three_are_there() -> None:
    """Fleet, accuracy and queue, each with a name of its own that links keep."""
    assert {path.stem: read(path)["uid"] for path in DASHBOARDS} == {
        "accuracy": "headroom-accuracy",
        "fleet": "headroom-fleet",
        "queue": "headroom-queue",
    }


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_explains_itself(path: Path) -> None:
    """A title, a sentence, a unit, a place of its own, and queries."""
    found = panels(path)

    assert len(found) >= 8
    for panel in found:
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"], panel["title"]
    for named in ("id", "title"):
        assert len({str(panel[named]) for panel in found}) == len(found), named


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_do_not_lie_on_each_other(path: Path) -> None:
    """No two panels share a cell of the grid, and none sticks out of it."""
    cells = [
        (place["x"] + x, place["y"] + y)
        for place in (panel["gridPos"] for panel in read(path)["panels"])
        for x in range(place["w"])
        for y in range(place["h"])
    ]

    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_data_sources_are_chosen_by_whoever_looks(path: Path) -> None:
    """Every data source is a variable of the dashboard, of the type that is provisioned."""
    variables = {
        one["name"]: one.get("query")
        for one in read(path)["templating"]["list"]
        if one["type"] == "datasource"
    }
    used = [
        source
        for panel in panels(path)
        for source in (panel["datasource"], *(one["datasource"] for one in panel["targets"]))
    ]
    used += [
        one["datasource"] for one in read(path)["templating"]["list"] if one["type"] == "query"
    ]
    provisioned = yaml.safe_load(
        (GRAFANA / "provisioning" / "datasources" / "headroom.yml").read_text()
    )["datasources"]

    assert variables == {name: kind for kind, name in SOURCES.items()}
    assert {(source["type"], source["uid"]) for source in used} <= {
        (kind, f"${{{name}}}") for kind, name in SOURCES.items()
    }
    assert {source["type"] for source in provisioned} == set(SOURCES)


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_expressions_name_only_what_is_told(path: Path) -> None:
    """A metric that was renamed would leave an empty panel; variables are all declared."""
    told = parse_names(render_all_metrics())
    declared = {variable["name"] for variable in read(path)["templating"]["list"]} | {
        "__rate_interval"
    }
    named = {name for expression in expressions(path) for name in METRIC.findall(expression)}
    variables = {
        name for expression in expressions(path) for name in re.findall(r"\$\{?(\w+)", expression)
    }

    assert named
    assert named - told == set()
    assert variables <= declared


def test_every_metric_is_somewhere() -> None:
    """What is told and shown nowhere is not looked at by anybody."""
    shown = {
        name
        for path in DASHBOARDS
        for expression in expressions(path)
        for name in METRIC.findall(expression)
    }
    rules = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text()
    unseen = {
        name
        for name in parse_names(render_all_metrics())
        if name not in shown and name not in rules
    }

    # Of histograms the buckets are shown; a worker's facts, its memory and whether it is busy are
    # in the table from Postgres.
    assert {
        name for name in unseen if not name.endswith(("_count", "_sum", "_gcount", "_gsum"))
    } <= {
        "headroom_worker_busy",
        "headroom_worker_info",
        "headroom_worker_memory_bytes",
    }


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_prometheus_understands_them(path: Path, tmp_path: Path) -> None:
    """Each expression is one, with the variables replaced as Grafana does."""
    rules = [
        {
            "record": f"panel:number{number}",
            "expr": re.sub(r"\$\{?\w+\}?", ".*", one.replace("$__rate_interval", "1m")),
        }
        for number, one in enumerate(expressions(path))
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": path.stem, "rules": rules}]}))

    done = promtool("check", "rules", str(file))

    assert done.returncode == 0, done.stdout + done.stderr
