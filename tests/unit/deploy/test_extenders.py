"""Configurations of schedulers that ask Headroom: every verb is a path that there is."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from litestar.testing import TestClient

from tests.unit.api.builders import served

EXTENDERS = Path(__file__).resolve().parents[3] / "deploy" / "extenders"


def _read_kube() -> dict[str, Any]:
    document = yaml.safe_load((EXTENDERS / "kube-scheduler.yaml").read_text())
    (extender,) = document["extenders"]
    return dict(extender)


def _read_volcano() -> dict[str, Any]:
    document = yaml.safe_load((EXTENDERS / "volcano.yaml").read_text())
    settings = yaml.safe_load(document["data"]["volcano-scheduler.conf"])
    plugins = [plugin for tier in settings["tiers"] for plugin in tier["plugins"]]
    arguments = next(plugin["arguments"] for plugin in plugins if plugin["name"] == "extender")
    return {name.removeprefix("extender."): value for name, value in arguments.items()}


def _find(client: TestClient[Any], settings: dict[str, Any], verb: str) -> int:
    path = f"{urlsplit(settings['urlPrefix']).path}/{verb}"
    return client.post(path, json={}).status_code


@pytest.mark.parametrize("settings", [_read_kube(), _read_volcano()], ids=["kube", "volcano"])
def test_every_verb_is_a_path(settings: dict[str, Any]) -> None:
    """An empty body is refused there; another verb is not found."""
    verbs = [value for name, value in settings.items() if name.endswith("Verb")]
    with served() as client:
        codes = {verb: _find(client, settings, verb) for verb in verbs}
        other = _find(client, settings, "bind")

    assert len(verbs) >= 2
    assert codes == dict.fromkeys(verbs, 422)
    assert other == 404


def test_a_scheduler_works_without_headroom() -> None:
    """Both leave an extender out that does not answer, and kube-scheduler sends whole nodes."""
    kube, volcano = _read_kube(), _read_volcano()

    assert kube["ignorable"] is volcano["ignorable"] is True
    assert kube["nodeCacheCapable"] is False
