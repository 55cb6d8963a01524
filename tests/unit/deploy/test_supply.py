"""The lock, the bill of materials and the licences of the image say the same, and all of it."""

import json
import re
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.release.supply import LICENCES, LOCK, SBOM, read_report, render_lock, render_sbom

ROOT = Path(__file__).resolve().parents[3]
EXTRAS = frozenset({"server", "mcp", "oidc", "telemetry"})
LINE = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>\S+) --hash=sha256:[0-9a-f]{64}")
NAMED = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)==(?P<version>\S+)")


def read_lock(path: Path, line: re.Pattern[str]) -> dict[str, str]:
    """Return the versions that a lock names."""
    matches = [line.fullmatch(text) for text in path.read_text().splitlines() if text[0] != "#"]
    return {canonicalize_name(match["name"]): match["version"] for match in matches if match}


def list_needed(name: str, extras: frozenset[str], found: set[tuple[str, str]]) -> set[str]:
    """Return the names of everything that a package needs here."""
    names: set[str] = set()
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        wanted = marker is None or any(marker.evaluate({"extra": extra}) for extra in {"", *extras})
        key = (canonicalize_name(requirement.name), ",".join(sorted(requirement.extras)))
        if wanted and key not in found:
            found.add(key)
            names |= {key[0], *list_needed(key[0], frozenset(requirement.extras), found)}
    return names


def test_what_the_image_needs_is_locked_with_hashes() -> None:
    """Each package that the extras lead to, in the version of the lock of all, and no other."""
    locked, everything = read_lock(LOCK, LINE), read_lock(ROOT / "requirements.lock", NAMED)
    needed = list_needed("gpu-headroom", EXTRAS, set()) - {"gpu-headroom"}

    assert set(locked) == needed
    assert locked == {name: everything[name] for name in locked}


def test_the_bill_of_materials_is_that_of_the_lock() -> None:
    """Version, hash and licence of each, and nothing of the machine that wrote it."""
    document = json.loads(SBOM.read_text())
    components = document["components"]

    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert {item["name"]: item["version"] for item in components} == read_lock(LOCK, LINE)
    assert all(item["hashes"][0]["content"] in LOCK.read_text() for item in components)
    assert all(
        f"| {item['name']} | {item['version']} | {item['licenses'][0]['license']['name']} |"
        in LICENCES.read_text()
        for item in components
    )
    assert "file:" not in SBOM.read_text()


def test_a_report_is_read_to_the_same_files() -> None:
    """Names are those of the index, and the order is theirs whatever pip's was."""
    items = [
        {
            "metadata": {"name": name, "version": distribution(name).version},
            "download_info": {"archive_info": {"hashes": {"sha256": digit * 64}}},
        }
        for name, digit in (("rich-click", "b"), ("Deprecated", "a"))
    ]
    packages = read_report({"install": items})

    assert [package.name for package in packages] == ["deprecated", "rich-click"]
    assert packages[1].licence == "MIT License"
    assert render_lock(packages).splitlines()[1].endswith(f"--hash=sha256:{'a' * 64}")
    assert json.loads(render_sbom(packages))["components"][0]["purl"].startswith("pkg:pypi/")


def test_a_package_of_another_version_is_not_described() -> None:
    """Its licence may be another."""
    item = {
        "metadata": {"name": "rich", "version": "0.0.1"},
        "download_info": {"archive_info": {"hashes": {"sha256": "a" * 64}}},
    }

    with pytest.raises(SystemExit, match=r"the report has 0\.0\.1"):
        read_report({"install": [item]})
