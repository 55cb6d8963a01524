"""GPUs of a pod: their number and product."""

from collections.abc import Mapping

from service.formats.gpu_requests.gres import split_slice
from service.formats.gpu_requests.pod_products import AMD, GPU, MIG, Json, list_names
from service.formats.launches.values.allocation import Allocation
from service.formats.launches.values.settings import Setting

_SECTIONS = ("limits", "requests")


def read_pod(container: Json, spec: Json, *, where: str, is_single: bool) -> Allocation | None:
    """Return the GPUs of a container, None without any.

    How many pods are one job's is not read here; where the job ``is_single``, it is one.
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
    selected = Setting(key="GPU product of the nodes", value=", ".join(products), where=where)
    return Allocation(
        per_node=None if count is None else count.as_int(minimum=0),
        num_nodes=1 if is_single else None,
        features=(tuple(split_slice(name)[0] for name in products),) if products else (),
        counts=() if count is None else (count,),
        names=(selected,) if products else (),
        slice_profile=profile,
    )


def _find_count(container: Json, where: str) -> Setting | None:
    """Return the resource that asks for GPUs, or slices of them."""
    resources = container.get("resources")
    for section in _SECTIONS:
        values = resources.get(section) if isinstance(resources, Mapping) else None
        if not isinstance(values, Mapping):
            continue
        for name in (GPU, AMD, *(name for name in values if str(name).startswith(MIG))):
            text = str(values.get(name, "")).strip()
            if text.isdecimal() and int(text[:6]) > 0:
                return Setting(key=name, value=int(text[:6]), where=where)
    return None
