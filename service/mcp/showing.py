"""Answers of the API as results of tools.

Each is a line in words, and the facts that matter. A language model pays for every word that it
reads, so that each tool shows its own part.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from service.contract.to_answer.phrases import format_gpu, format_shortage
from service.estimator.values.units import format_bytes
from service.mcp.asking import Document

_VERDICTS = {"fits": "fits", "tight": "is tight", "does_not_fit": "does not fit"}
_FIT = (
    *("verdict", "basis", "num_gpus", "usable_bytes", "headroom_bytes", "deficit_bytes"),
    *("host_bytes_per_node", "serving", "throughput", "remedies", "assumptions", "warnings"),
)
_PER_GPU = ("allocated_bytes", "reserved_bytes", "device_bytes", "peak_instant", "intervals")
_EXPLAINED = (
    *("verdict", "basis", "bases", "num_gpus", "usable_bytes", "per_gpu", "checkpoint_bytes"),
    *("rules_of_thumb", "throughput", "assumptions", "warnings"),
)
_CANDIDATE = (
    *("num_gpus", "gpu", "layout", "workload", "step_time_s", "tokens_per_second"),
    *("cost_per_hour", "cost_of_run", "placement"),
)
_LISTED: Mapping[str, tuple[str, ...]] = {
    "models": ("name", "family", "origin", "aliases", "supported"),
    "gpus": (
        *("name", "family", "vendor", "usable_bytes", "bandwidth_bytes_per_second"),
        *("compute_capability", "peak_flops"),
    ),
    "clusters": ("name", "pools"),
    "families": ("name", "group", "models", "training", "serving"),
}

Show = Callable[[Document], Document]


def show_fit(answer: Document) -> Document:
    """Return the verdict, the bytes of a GPU and what would help."""
    return _pick(answer, _FIT) | {"per_gpu": _pick(answer["per_gpu"], _PER_GPU)}


def show_explanation(answer: Document) -> Document:
    """Return every component with its formula and source, and every instant."""
    return _pick(answer, _EXPLAINED)


def show_plan(answer: Document) -> Document:
    """Return a plan with launch files of the best candidate alone."""
    best, *others = answer["candidates"] or [None]
    first = [] if best is None else [_show_candidate(best) | _pick(best, ("requests",))]
    return answer | {"candidates": [*first, *map(_show_candidate, others)]}


def _show_candidate(candidate: Document) -> Document:
    fit = None if candidate.get("fit") is None else show_fit(candidate["fit"])
    return _pick(candidate, _CANDIDATE) | {"fit": fit}


def show_all(answer: Document) -> Document:
    """Return an answer as it is."""
    return answer


def show_items(items: Sequence[Document], kind: str, *, contains: str, limit: int) -> Document:
    """Return the items in whose names a text is, counted."""
    folded = contains.casefold()
    matching = [item for item in items if any(folded in name for name in _list_names(item))]
    picked = [_pick(item, _LISTED[kind]) for item in matching[:limit]]
    return {"items": picked, "num_matching": len(matching), "num_all": len(items)}


def describe_fit(answer: Document) -> str:
    """Return the verdict in words."""
    per_gpu = answer["per_gpu"]
    low, high = per_gpu["intervals"]["device"]
    balance = (
        f"{format_bytes(answer['deficit_bytes'])} too much"
        if answer["deficit_bytes"]
        else f"{format_bytes(answer['headroom_bytes'])} left"
    )
    gpus = "1 GPU" if answer["num_gpus"] == 1 else f"{answer['num_gpus']} GPUs"
    return (
        f"{_VERDICTS[answer['verdict']]} on {gpus}: {format_bytes(per_gpu['device_bytes'])} per "
        f"GPU at {per_gpu['peak_instant']}, of {format_bytes(answer['usable_bytes'])} usable, "
        f"{balance} (between {format_bytes(low)} and {format_bytes(high)})"
    )


def describe_number(answer: Document) -> str:
    """Return a number of GPUs in words, or each of several kinds."""
    plans = answer.get("answers", [answer])
    return "; ".join(
        f"{format_gpu(plan['gpu'])}: {format_shortage(plan)}"
        if plan["num_gpus"] is None
        else f"{plan['num_gpus']} x {format_gpu(plan['gpu'])}"
        for plan in plans
    )


def describe_plan(answer: Document) -> str:
    """Return the best plan in words."""
    if answer["num_gpus"] is None:
        return f"nothing that was offered is enough: {format_shortage(answer)}"
    return f"{answer['num_gpus']} x {format_gpu(answer['gpu'])}"


def describe_problem(document: Document) -> str:
    """Return a refusal in words."""
    lines = [str(document.get("detail") or document.get("title") or "the request was refused")]
    lines += [
        f"{error['field']}: {error['message']}"
        for error in document.get("errors", ())
        if error["message"] not in lines[0]
    ]
    return "\n".join(lines)


def _list_names(item: Document) -> list[str]:
    aliases = item.get("aliases") or ()
    listed = (
        [name for names in aliases.values() for name in names]
        if isinstance(aliases, Mapping)
        else list(aliases)
    )
    return [str(name).casefold() for name in (item["name"], item.get("family"), *listed) if name]


def _pick(document: Mapping[str, Any], names: Sequence[str]) -> Document:
    return {name: document[name] for name in names if name in document}
