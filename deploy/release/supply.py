r"""Lock with hashes, bill of materials and licences of the API's image.

Written from the report of pip for the extras of that image, which names every file and its hash:

    pip install --dry-run --ignore-installed --constraint requirements.lock \
        --report REPORT '.[server,mcp,oidc,telemetry]'
    python -m deploy.release.supply REPORT

Files are those of CPython 3.11 on x86-64 with glibc, which the image runs.
"""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "deploy" / "images" / "api.lock"
SBOM = ROOT / "service" / "sbom.cdx.json"
LICENCES = ROOT / "docs" / "licences.md"
OURS = "gpu-headroom"
_CLASSIFIER = "License :: OSI Approved :: "
_MAX_LICENCE_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package that is installed, with the hash of its file."""

    name: str
    version: str
    sha256: str
    licence: str

    def make_component(self) -> dict[str, Any]:
        """Return it as a component of CycloneDX 1.6."""
        return {
            "type": "library",
            "bom-ref": f"pkg:pypi/{self.name}@{self.version}",
            "name": self.name,
            "version": self.version,
            "purl": f"pkg:pypi/{self.name}@{self.version}",
            "hashes": [{"alg": "SHA-256", "content": self.sha256}],
            "licenses": [{"license": {"name": self.licence}}],
        }


def read_report(report: dict[str, Any]) -> list[Package]:
    """Return the packages of pip's report but ours, by name."""
    packages = [
        _read_package(item) for item in report["install"] if item["metadata"]["name"] != OURS
    ]
    return sorted(packages, key=lambda package: package.name)


def render_lock(packages: Sequence[Package]) -> str:
    """Return the requirements of pip's mode with hashes."""
    head = "# Written by deploy/release/supply.py: CPython 3.11 on x86-64 with glibc.\n"
    return head + "".join(
        f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n"
        for package in packages
    )


def render_sbom(packages: Sequence[Package]) -> str:
    """Return the bill of materials, the same for the same packages."""
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": OURS, "purl": f"pkg:pypi/{OURS}"}
        },
        "components": [package.make_component() for package in packages],
    }
    return json.dumps(document, indent=1) + "\n"


def render_licences(packages: Sequence[Package]) -> str:
    """Return the page of licences."""
    rows = "".join(
        f"| {package.name} | {package.version} | {package.licence} |\n" for package in packages
    )
    return (
        "# Licences\n\n"
        "Headroom is under the Apache License 2.0. The image of the API installs these packages,\n"
        "under the licences that their own metadata names. `sbom.cdx.json` of the wheel says the\n"
        "same as CycloneDX, with the hash of each file. A worker adds torch, transformers, peft\n"
        "and what these need.\n\n"
        f"| package | version | licence |\n| --- | --- | --- |\n{rows}"
    )


def _read_package(item: dict[str, Any]) -> Package:
    name, version = item["metadata"]["name"], item["metadata"]["version"]
    return Package(
        name=re.sub(r"[-_.]+", "-", name).lower(),
        version=version,
        sha256=item["download_info"]["archive_info"]["hashes"]["sha256"],
        licence=_find_licence(name, version),
    )


def _find_licence(name: str, version: str) -> str:
    """Return the licence that an installed package names.

    It is an expression, classifiers, or a title. Reports of older pips leave expressions out.
    """
    metadata = distribution(name).metadata
    if metadata["Version"] != version:
        message = f"{name} {metadata['Version']} is installed, and the report has {version}"
        raise SystemExit(message)
    if metadata["License-Expression"]:
        return str(metadata["License-Expression"])
    classifiers = [
        line.removeprefix(_CLASSIFIER)
        for line in metadata.get_all("Classifier") or ()
        if line.startswith(_CLASSIFIER)
    ]
    if classifiers:
        return " and ".join(classifiers)
    # A whole text begins with its title.
    licence = (metadata["License"] or "").strip().partition("\n")[0]
    if not licence or len(licence) > _MAX_LICENCE_CHARS:
        message = f"{name} {version} does not name its licence: {licence[:80]!r}"
        raise SystemExit(message)
    return licence


def main(arguments: Sequence[str]) -> None:
    """Write the three files from a report."""
    packages = read_report(json.loads(Path(arguments[0]).read_text()))
    LOCK.write_text(render_lock(packages))
    SBOM.write_text(render_sbom(packages))
    LICENCES.write_text(render_licences(packages))


if __name__ == "__main__":
    main(sys.argv[1:])
