"""Compile the caching allocator where mypyc and a C compiler are at hand, else nothing.

Everything else about the package stands in ``pyproject.toml``. The module runs as it is without:
five times slower.
"""

import warnings

from setuptools import Extension, setup

COMPILED = ["service/estimator/memory/allocator/caching_allocator.py"]


def list_extensions() -> list[Extension]:
    """Return the modules to compile; none of them stops the build that it is part of."""
    try:
        from mypyc.build import mypycify  # noqa: PLC0415 - need not be there

        extensions: list[Extension] = mypycify(COMPILED, opt_level="3", debug_level="0")
    except (ImportError, SystemExit) as error:
        warnings.warn(f"nothing is compiled: {error}", stacklevel=1)
        return []
    for extension in extensions:
        extension.optional = True
    return extensions


setup(ext_modules=list_extensions())
