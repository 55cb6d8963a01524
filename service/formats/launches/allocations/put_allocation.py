"""GPU of a question by its job's request."""

import re
from math import prod

from service.formats.launches.values.allocation import Allocation
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.launch import Launch
from service.formats.launches.values.settings import Setting

_MAX_NAME = 80
_DEGREES = ("tensor", "pipeline", "context", "data")


def put_allocation(allocation: Allocation, draft: Draft, launch: Launch) -> None:
    """Set the GPU, and warn of another number of them."""
    for remark in allocation.remarks:
        draft.warn(remark)
    _put_gpu(allocation, draft, launch)
    _compare(allocation, draft)


def _put_gpu(allocation: Allocation, draft: Draft, launch: Launch) -> None:
    skus = launch.find_skus(allocation.features, allocation.slice_profile)
    if not skus and allocation.hint is not None:
        _ask_by_hint(allocation.hint, draft, launch)
    if not allocation.names:
        return
    is_certain = all(len(alternatives) == 1 for alternatives in allocation.features)
    if len(skus) == 1 and is_certain:
        draft.put("gpu", skus[0], *allocation.names)
        return
    texts = " and ".join(f"{setting.key} {setting.value}" for setting in allocation.names)
    place = allocation.names[0].where
    if skus:
        draft.ask("gpu", f"{texts} ({place}) may be each of these", skus)
    else:
        _ask_for_gpu(allocation, draft, f"{texts} ({place})")
    for setting in allocation.names:
        draft.note(setting, "words for GPUs" if skus else "no words for GPUs that are known")


def _ask_for_gpu(allocation: Allocation, draft: Draft, texts: str) -> None:
    """Ask for the GPU of words that name none."""
    profile = allocation.slice_profile
    lack = "names no GPU of the catalogue"
    if profile is not None and not any(map(any, allocation.features)):
        lack = f"does not say whose slice {profile} is, such as A100-SXM4-80GB/{profile}"
    draft.ask("gpu", f"{texts} {lack}; say which it is by gpu (--gpu)")


def _ask_by_hint(hint: Setting, draft: Draft, launch: Launch) -> None:
    """Ask for the GPU by a partition's name, which promises none."""
    parts = re.split(r"[-_,]", str(hint.value)[:_MAX_NAME])
    skus = launch.find_skus(((str(hint.value)[:_MAX_NAME], *parts),), None)
    if skus:
        why = f"{hint.key} {hint.value} ({hint.where}) may be named for one of these"
        draft.ask("gpu", why, skus)


def _compare(allocation: Allocation, draft: Draft) -> None:
    """Warn of GPUs that the job has in vain, or lacks."""
    for setting in allocation.counts:
        draft.note(setting, "GPUs of the job")
    total = allocation.total
    degrees = [draft.get(f"layout.{kind}_parallel") for kind in _DEGREES]
    if total is None or draft.is_open("layout.data_parallel"):
        return
    number = prod(degree for degree in degrees if isinstance(degree, int))
    if number != total and allocation.counts:
        place = allocation.counts[0]
        draft.warn(
            f"{place.where}: the job asks for {total} GPUs ({place.key} {place.value}), and the "
            f"launch runs on {number}"
        )
