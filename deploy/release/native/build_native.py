"""Build backend: setuptools, with one module compiled by mypyc.

The module runs as it is without, five times slower: where mypyc or a C compiler is missing the
build goes on and compiles nothing. ``python deploy/release/native/build_native.py`` compiles it
beside its source, as ``make setup`` does. Everything else about the package stands in
``pyproject.toml``.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import setuptools
from setuptools import build_meta
from setuptools.build_meta import (
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)
from setuptools.command.sdist import sdist

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

BACKEND = "deploy/release/native/build_native.py"
COMPILED = ["service/estimator/memory/allocator/caching_allocator.py"]

Settings = dict[str, Any] | None


def list_extensions() -> list[setuptools.Extension]:
    """Return the modules to compile; none of them stops the build that it is part of."""
    try:
        from mypyc.build import mypycify  # noqa: PLC0415 - need not be there

        extensions: list[setuptools.Extension] = mypycify(COMPILED, opt_level="3", debug_level="0")
    except (ImportError, SystemExit) as error:
        warnings.warn(f"nothing is compiled: {error}", stacklevel=1)
        return []
    for extension in extensions:
        extension.optional = True
    return extensions


class SourceArchive(sdist):  # type: ignore[misc, unused-ignore] # setuptools has types in some releases
    """Source archive that holds the backend which builds it."""

    def add_defaults(self) -> None:
        """Add this file, which belongs to no package."""
        super().add_defaults()
        self.filelist.append(BACKEND)


@contextmanager
def _with_extensions() -> Iterator[None]:
    """Let setuptools, which finds no ``setup.py``, know what to compile."""
    plain = setuptools.setup
    setuptools.setup = partial(
        plain, ext_modules=list_extensions(), cmdclass={"sdist": SourceArchive}
    )
    try:
        yield
    finally:
        setuptools.setup = plain


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel (PEP 517) and return its name."""
    with _with_extensions():
        return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Build a source archive (PEP 517) and return its name."""
    with _with_extensions():
        return build_meta.build_sdist(sdist_directory, config_settings)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build an editable wheel (PEP 660), whose sources stay where they are, and return its name."""
    return build_meta.build_editable(wheel_directory, config_settings, metadata_directory)


if __name__ == "__main__":
    setuptools.setup(
        ext_modules=list_extensions(), script_args=["--quiet", "build_ext", "--inplace"]
    )
