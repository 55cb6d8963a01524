"""Build backend: setuptools, over a staged tree, with hot modules compiled by mypyc, and one of C.

A wheel is built of the tree that ``staging`` makes: everything that is installed lies below
``headroom``. An editable install has the sources where they are, and the front beside them.

They run as they are without, slower: where mypyc or a C compiler is missing the build goes on and
compiles nothing. ``python deploy/release/native/build_native.py`` compiles them beside their
sources, as ``make setup`` does. Everything else about the package stands in ``pyproject.toml``.
"""

import base64
import hashlib
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import setuptools
from setuptools import build_meta
from setuptools.build_meta import (
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
)
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist
from setuptools.errors import CCompilerError, ExecError, PlatformError

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
]

# The frontend puts this folder on the path while it loads the backend; a script has it there too.
sys.path.insert(0, str(Path(__file__).parent))
from staging import FRONT, PACKAGE, stage

FILES = [
    "deploy/release/native/build_native.py",
    "deploy/release/native/compiled.txt",
    "deploy/release/native/staging.py",
    *FRONT,
]
"""What builds the package, and belongs to none."""
COMPILED = Path(__file__).with_name("compiled.txt").read_text(encoding="utf-8").split()
"""Modules that one library holds, below ``service`` here and below our name in a wheel.

They are the replay of the allocator, and what every operation of a recording goes through.
"""

HEAP = "estimator/memory/allocator/native_heap"
"""The allocator that replays run on, written in C; its sources lie beside it in ``native``."""

Settings = dict[str, Any] | None


def list_extensions(package: str = "service") -> list[setuptools.Extension]:
    """Return the modules to compile, and the library that holds them."""
    modules = [f"{package}/{name}" for name in COMPILED]
    sources = Path(package, HEAP).with_name("native")
    heap = setuptools.Extension(
        f"{package}/{HEAP}".replace("/", "."),
        [str(sources / "module.c")],
        depends=[str(header) for header in sorted(sources.glob("*.h"))],
        extra_compile_args=["-O3"],
    )
    try:
        from mypyc.build import mypycify  # noqa: PLC0415 - need not be there

        extensions: list[setuptools.Extension] = mypycify(
            modules, opt_level="3", debug_level="0", group_name=f"{package}.estimator.compiled"
        )
    except (ImportError, SystemExit) as error:
        warnings.warn(f"mypyc compiles nothing: {error}", stacklevel=1)
        return [heap]
    return [*extensions, heap]


class BuildAllOrNothing(build_ext):  # type: ignore[misc] # setuptools brings no types
    """Compilation that never stops the build that it is part of.

    A module without the library that holds its code could not be imported.
    """

    def run(self) -> None:
        """Compile all modules, or leave none of them compiled."""
        try:
            super().run()
        except (CCompilerError, ExecError, PlatformError) as error:
            warnings.warn(f"nothing is compiled: {error}", stacklevel=1)
            for file in self.get_outputs():
                Path(file).unlink(missing_ok=True)
            self.extensions: list[setuptools.Extension] = []


class SourceArchive(sdist):  # type: ignore[misc] # setuptools brings no types
    """Source archive that holds the backend which builds it."""

    def make_distribution(self) -> None:
        """Add files that belong to no package."""
        sources = sorted(Path("service", HEAP).with_name("native").glob("*.[ch]"))
        self.filelist.extend([*FILES, *map(str, sources)])
        super().make_distribution()


@contextmanager
def _with_arguments(**arguments: Any) -> Iterator[None]:  # noqa: ANN401 - setuptools' own
    """Let setuptools, which finds no ``setup.py``, know what else it would say."""
    plain = setuptools.setup
    setuptools.setup = partial(plain, **arguments)
    try:
        yield
    finally:
        setuptools.setup = plain


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, _metadata_directory: str | None = None
) -> str:
    """Build a wheel (PEP 517) and return its name."""
    target = str(Path(wheel_directory).absolute())
    with tempfile.TemporaryDirectory(prefix="headroom-build-") as staged:
        stage(Path.cwd(), Path(staged))
        with (
            chdir(staged),
            _with_arguments(
                ext_modules=list_extensions(PACKAGE), cmdclass={"build_ext": BuildAllOrNothing}
            ),
        ):
            name: str = build_meta.build_wheel(target, config_settings)
    return name


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Build a source archive (PEP 517) and return its name."""
    with _with_arguments(cmdclass={"sdist": SourceArchive}):
        name: str = build_meta.build_sdist(sdist_directory, config_settings)
    return name


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build an editable wheel (PEP 660), whose sources stay where they are, and return its name."""
    name: str = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    add_front(Path(wheel_directory) / name)
    return name


def add_front(wheel: Path) -> None:
    """Add the front of the package to a wheel, as it lies in the repository."""
    with zipfile.ZipFile(wheel) as archive:
        members = {one.filename: archive.read(one) for one in archive.infolist()}
    (record,) = [name for name in members if name.endswith(".dist-info/RECORD")]
    lines = members.pop(record).decode().rstrip("\n").split("\n")
    for source, file_name in FRONT.items():
        name, content = f"{PACKAGE}/{file_name}", Path(source).read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        members[name] = content
        lines.append(f"{name},sha256={digest},{len(content)}")
    members[record] = "".join(f"{line}\n" for line in lines).encode()
    _write(wheel, list(members.items()))


def _write(wheel: Path, members: Sequence[tuple[str, bytes]]) -> None:
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)


if __name__ == "__main__":
    setuptools.setup(
        ext_modules=list_extensions(),
        cmdclass={"build_ext": BuildAllOrNothing},
        script_args=["--quiet", "build_ext", "--inplace"],
    )
