"""LitGPT's model code of one revision, without its packages.

``git archive`` unpacks it from a clone; of ``utils.py`` only the functions that the models and the
loss need are run, since the rest imports Lightning.
"""

import ast
import importlib
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

_ABSENT = (
    "lightning",
    "lightning.fabric",
    "lightning.fabric.strategies",
    "lightning_utilities",
    "lightning_utilities.core",
    "lightning_utilities.core.imports",
)
_MODULES = ("model", "config", "lora", "adapter", "adapter_v2")
_FUNCTIONS = frozenset({"chunked_cross_entropy", "find_multiple", "map_old_state_dict_weights"})
_IMPORTS = (
    "from collections.abc import *\nfrom typing import *\nimport torch\nfrom torch import nn\n"
)


class _Absent(ModuleType):
    """Stand-in of a package: each name in it is a class whose instances are false."""

    __path__: list[str] = []  # noqa: RUF012 - what makes a module a package

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any class
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda *_a, **_k: None, "__bool__": lambda _self: False})


def unpack(clone: Path, revision: str, folder: Path) -> Path:
    """Unpack the code of a revision; return the folder of its package."""
    name = "litgpt" if _has_folder(clone, revision, "litgpt") else "lit_gpt"
    packed = subprocess.run(
        ["git", "-C", str(clone), "archive", revision, name],  # noqa: S607 - git of the path
        check=True,
        capture_output=True,
    ).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / name


def _has_folder(clone: Path, revision: str, name: str) -> bool:
    command = ["git", "-C", str(clone), "ls-tree", "--name-only", revision, name]
    return bool(subprocess.run(command, check=True, capture_output=True).stdout)


def load(package: Path, newest: Path) -> SimpleNamespace:
    """Return the modules of models and adapters of a package, and ``utils``.

    The loss is that of ``newest``: older ones read a value of the labels, which fake tensors lack.
    """
    name = package.name
    for known in [known for known in sys.modules if known.split(".")[0] in {"litgpt", "lit_gpt"}]:
        del sys.modules[known]
    for absent in _ABSENT:
        sys.modules.setdefault(absent, _Absent(absent))
    root = ModuleType(name)
    root.__path__ = [str(package)]
    utils = _make(f"{name}.utils")
    for source in (newest, package):
        exec(_select_functions(source / "utils.py", source is newest), utils.__dict__)  # noqa: S102 - LitGPT's functions
    scripts = _make(f"{name}.scripts")
    scripts.__path__ = []
    conversion: Any = _make(f"{name}.scripts.convert_hf_checkpoint")
    conversion.qkv_reassemble = None
    sys.modules[name] = root
    made = {part: importlib.import_module(f"{name}.{part}") for part in _MODULES}
    return SimpleNamespace(**made, utils=utils)


def _make(name: str) -> ModuleType:
    module = sys.modules[name] = ModuleType(name)
    exec(_IMPORTS, module.__dict__)  # noqa: S102 - the imports above
    return module


def _select_functions(file: Path, is_newest: bool) -> Any:  # noqa: ANN401, FBT001 - a code object
    wanted = _FUNCTIONS if is_newest else _FUNCTIONS - {"chunked_cross_entropy"}
    body: list[ast.stmt] = [
        node
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name in wanted
    ]
    return compile(ast.Module(body=body, type_ignores=[]), str(file), "exec")
