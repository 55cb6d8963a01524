"""Build and installation of the wheel, as the images do it.

The environment is its own; its packages are counted.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from deploy.release.packaging.containers import ROOT

MAX_THIN_PACKAGES = 15
"""Limit of the package without an extra: the client, and the command line without a server."""
MAX_PACKAGES = 65
MAX_BYTES = 200 * 10**6
"""Limits of an API: packages, and bytes in site-packages."""
FORBIDDEN = ("torch", "transformers", "numpy", "nvidia-ml-py")
_LISTING = (
    "import importlib.metadata as m, json; "
    "print(json.dumps(sorted({d.metadata['Name'].lower().replace('_', '-') for d in "
    "m.distributions()})))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """An environment with the wheel and its dependencies."""

    programs: Path
    packages: tuple[str, ...]
    num_bytes: int

    def list_excesses(self) -> list[str]:
        """Return what is beyond the limits of an API."""
        problems = [f"{name} is installed" for name in FORBIDDEN if name in self.packages]
        if len(self.packages) > MAX_PACKAGES:
            problems.append(
                f"{len(self.packages)} packages are installed, {MAX_PACKAGES} may be: "
                f"{', '.join(self.packages)}"
            )
        if self.num_bytes > MAX_BYTES:
            problems.append(
                f"{self.num_bytes / 1e6:.0f} MB are installed, {MAX_BYTES / 1e6:.0f} may be"
            )
        return problems


def build(into: Path) -> tuple[Path, Path]:
    """Build the source distribution and, from it, the wheel.

    Returns the wheel and the source distribution.
    """
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(into), str(ROOT))
    (wheel,), (source,) = into.glob("*.whl"), into.glob("*.tar.gz")
    return wheel, source


def install(archive: Path, environment: Path, *, python: str, extras: str = "") -> Installation:
    """Install an archive into an empty environment.

    The environment is made with ``python``; ``extras`` are such as ``[oidc]``.
    """
    _run(python, "-m", "venv", "--without-pip", str(environment))
    interpreter = environment / "bin" / "python"
    # By the pip that runs this: the environment then holds nothing but what was asked for.
    _run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(interpreter),
        "install",
        "--quiet",
        "--no-compile",
        f"{archive}{extras}",
    )
    listed = subprocess.run(  # noqa: S603 - our own
        [interpreter, "-I", "-c", _LISTING], check=True, capture_output=True, text=True
    )
    (site,) = (environment / "lib").glob("python*/site-packages")
    return Installation(
        programs=environment / "bin",
        packages=tuple(json.loads(listed.stdout)),
        num_bytes=sum(path.stat().st_size for path in site.rglob("*") if path.is_file()),
    )


def _run(*command: str) -> None:
    # A path of ours would have pip believe that everything is installed already.
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=clean)  # noqa: S603 - build and pip
    if done.returncode:
        message = (
            f"{' '.join(command)} ended with "
            f"{done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}"
        )
        raise RuntimeError(message)
