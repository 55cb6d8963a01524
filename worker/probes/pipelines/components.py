"""Components of a pipeline, built on fake tensors from their configs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch import nn

from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal

LIBRARIES = ("diffusers", "transformers")
"""Libraries whose classes are built; code that comes with a checkpoint never is."""


def build_component(
    library: str, class_name: str, config: Mapping[str, Any], dtype: torch.dtype
) -> nn.Module:
    """Build a component without weights, in the formats that ``from_pretrained`` gives it.

    Raises Refusal for a class that neither library has, or a config that it refuses.
    """
    if library not in LIBRARIES:
        message = f"components of {' and '.join(LIBRARIES)} alone are built, not of {library}"
        raise Refusal(FailureKind.UNSUPPORTED, message)
    loaded = import_module(library)
    component_class = getattr(loaded, class_name, None)
    if component_class is None:
        message = f"{library} {loaded.__version__} has no {class_name}"
        raise Refusal(FailureKind.UNSUPPORTED, message)
    try:
        with _use_default_dtype(dtype):
            module = _construct(library, component_class, config)
    except (TypeError, ValueError, AttributeError) as error:
        message = f"{class_name} refuses this config: {error}"
        raise Refusal(FailureKind.UNSUPPORTED, message) from error
    _keep_in_fp32(module, dtype)
    module.requires_grad_(requires_grad=False)
    return module.eval()


def _construct(library: str, component_class: Any, config: Mapping[str, Any]) -> nn.Module:  # noqa: ANN401 - a class of either library
    fields = {name: value for name, value in config.items() if not name.startswith("_")}
    if library == "diffusers":
        module: nn.Module = component_class.from_config(fields)
        return module
    for name in ("architectures", "torch_dtype", "dtype", "transformers_version", "model_type"):
        fields.pop(name, None)
    hf_config = component_class.config_class(**fields)
    built: nn.Module = component_class._from_config(hf_config)  # noqa: SLF001 - how transformers' own auto classes build one
    return built


@contextmanager
def _use_default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Build in a dtype, as both libraries load."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _keep_in_fp32(module: nn.Module, dtype: torch.dtype) -> None:
    """Give the parts that a class keeps in fp32 that format.

    diffusers keeps them for both half formats, transformers its plain list for fp16 alone
    (``_keep_in_fp32_modules``, ``_keep_in_fp32_modules_strict``).
    """
    if dtype is torch.float32:
        return
    parts = list(getattr(module, "_keep_in_fp32_modules_strict", None) or ())
    is_plain_kept = dtype is torch.float16 or type(module).__module__.startswith("diffusers.")
    if is_plain_kept:
        parts += getattr(module, "_keep_in_fp32_modules", None) or ()
    for path, part in module.named_modules():
        for name, weight in list(part.named_parameters(recurse=False)):
            if any(fp32_part in f"{path}.{name}".split(".") for fp32_part in parts):
                kept_weight = nn.Parameter(torch.empty(weight.shape, dtype=torch.float32))
                setattr(part, name, kept_weight)


def list_module_tensors(module: nn.Module) -> list[tuple[str, list[tuple[int, int]]]]:
    """Return each module's own tensors as (elements, bytes of one).

    A tensor that several modules share is the first one's.
    """
    seen: set[int] = set()
    rows = []
    for path, part in module.named_modules():
        tensors = []
        for tensor in (*part.parameters(recurse=False), *part.buffers(recurse=False)):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                tensors.append((tensor.numel(), tensor.element_size()))
        if tensors:
            rows.append((path, tensors))
    return rows


def count_parameters(module: nn.Module) -> int:
    """Return the elements of the weights; tied ones count once."""
    return sum(weight.numel() for weight in module.parameters())
