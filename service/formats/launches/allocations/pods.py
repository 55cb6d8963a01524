"""GPUs of a pod: their number and product."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from service.formats.gpu_requests.gres import split_slice
from service.formats.gpu_requests.kubernetes_quantities import read_quantity
from service.formats.gpu_requests.pod_products import (
    AMD,
    GPU,
    MIG,
    SHARED,
    SHARED_SUFFIX,
    Json,
    list_labels,
    list_names,
)
from service.formats.launches.values.allocation import Allocation
from service.formats.launches.values.settings import Setting

_SECTIONS = ("limits", "requests")
_PRODUCT = "GPU product of the nodes"
_MAX_GPUS = 65_536
_WHOLE = re.compile(r"[0-9]{1,9}(\.0{1,9})?k?", re.ASCII)
"""Quantities of a resource that is counted (Kubernetes, extended resources)."""


def read_pod(container: Json, spec: Json, *, where: str, is_single: bool) -> Allocation | None:
    """Return the GPUs of a container, None without any.

    How many pods are one job's is not read here; where the job ``is_single``, it is one.

    Raises LaunchFormatError for a number that no container has.
    """
    count = _find_count(container, where)
    products = tuple(dict.fromkeys(list_names(spec)))
    profile = None
    if count is not None and count.key.startswith(MIG):
        profile = count.key.removeprefix(MIG)
    if count is None and not products:
        return None
    profiles = {split_slice(name)[1] for name in products}
    if profile is None and len(profiles) == 1:
        profile = profiles.pop()
    selected = Setting(key=_PRODUCT, value=", ".join(products), where=where)
    shared = [name for name in list_labels(spec) if name.endswith(SHARED_SUFFIX)]
    shared += [SHARED] if count is not None and count.key == SHARED else []
    return Allocation(
        per_node=None if count is None else count.as_int(minimum=0),
        num_nodes=1 if is_single else None,
        features=(tuple(split_slice(name)[0] for name in products),) if products else (),
        counts=() if count is None else (count,),
        names=(selected,) if products else (),
        slice_profile=profile,
        remarks=tuple(_warn_shared(name, count, where) for name in shared[:1]),
    )


def join_pods(allocations: Sequence[Allocation | None]) -> Allocation | None:
    """Return the GPUs of a job's pods, None without any.

    Of unlike GPUs each is an alternative, of unlike numbers the least counts.
    """
    asking = [entry for entry in allocations if entry is not None]
    if not asking:
        return None
    first = min(asking, key=lambda entry: (entry.per_node is None, entry.per_node or 0))
    numbers = sorted({entry.per_node for entry in asking if entry.per_node is not None})
    remarks = [remark for entry in asking for remark in entry.remarks]
    if len(numbers) > 1:
        texts = " and ".join(map(str, numbers))
        place = first.counts[0]
        remarks.append(
            f"{place.where}: its pods ask for {texts} GPUs each, and the answer is for {numbers[0]}"
        )
    values = dict.fromkeys(str(entry.names[0].value) for entry in asking if entry.names)
    if len(values) > 1:
        remarks.append(
            f"its pods select unlike GPUs, and an answer is for one: {', '.join(values)}"
        )
    named = [entry for entry in asking if entry.names]
    features = dict.fromkeys(word for entry in named for word in entry.features[0])
    profiles = dict.fromkeys(entry.slice_profile for entry in asking)
    if len(profiles) > 1:
        kinds = " and ".join(profile or "whole GPUs" for profile in profiles)
        place = (*first.counts, *first.names)[0]
        raise place.refuse(f"alike in all pods, which ask for {kinds}")
    names = tuple(replace(entry.names[0], value=", ".join(values)) for entry in named[:1])
    return replace(
        first,
        features=(tuple(features),) if features else (),
        names=names,
        remarks=tuple(dict.fromkeys(remarks)),
    )


def _warn_shared(name: str, count: Setting | None, where: str) -> str:
    """Return the warning of GPUs that pods take turns on."""
    number = "what a pod gets" if count is None else f"{count.value} of {count.key}"
    return (
        f"{where}: {name} are GPUs that several pods share at a time: {number} may be one GPU, "
        "whose memory other pods take too; the answer is for whole GPUs"
    )


def _find_count(container: Json, where: str) -> Setting | None:
    """Return the resource that asks for GPUs, or slices of them."""
    resources = container.get("resources")
    for section in _SECTIONS:
        values = resources.get(section) if isinstance(resources, Mapping) else None
        if not isinstance(values, Mapping):
            continue
        for name in (GPU, AMD, SHARED, *(name for name in values if str(name).startswith(MIG))):
            count = _read_count(values.get(name), Setting(key=name, value=0, where=where))
            if count is not None:
                return count
    return None


def _read_count(value: object, setting: Setting) -> Setting | None:
    """Return a resource with its number, None for none of it."""
    text = str(value).strip()
    if value is None or text in {"", "0"} or "$" in text or "{" in text:
        return None
    number = read_quantity(text) if _WHOLE.fullmatch(text) else None
    if number is None or number > _MAX_GPUS:
        raise replace(setting, value=value).refuse(f"a whole number of GPUs up to {_MAX_GPUS:,}")
    return replace(setting, value=number) if number else None
