"""The forms in which the caching allocator can run here: interpreted, and compiled if it was."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from service.estimator.memory.allocator import addresses, caching_allocator, pool

SOURCE = Path(caching_allocator.__file__).with_name("caching_allocator.py")


def _load_interpreted() -> ModuleType:
    """Return the module as its source has it, beside the one that the estimator runs.

    It imports its pools and addresses as their sources have them.
    """
    sys.modules[pool.__name__] = _load("interpreted_pool", SOURCE.with_name("pool.py"))
    places = _load("interpreted_addresses", SOURCE.with_name("addresses.py"))
    sys.modules[addresses.__name__] = places
    try:
        return _load("interpreted_allocator", SOURCE)
    finally:
        sys.modules[pool.__name__] = pool
        sys.modules[addresses.__name__] = addresses


def _load(name: str, source: Path) -> ModuleType:
    spec = spec_from_file_location(name, source)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FORMS: list[ModuleType] = [_load_interpreted()]
if caching_allocator.COMPILED:
    FORMS.append(caching_allocator)


def name_form(form: object) -> str | None:
    """Return the name of a form in the names of tests."""
    compiled = getattr(form, "COMPILED", None)
    return None if compiled is None else "compiled" if compiled else "interpreted"
