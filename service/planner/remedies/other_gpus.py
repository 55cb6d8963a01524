"""The same job on other kinds of GPU, and on more GPUs."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from itertools import islice
from math import inf

from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError
from service.estimator.values.workload import TrainWorkload
from service.planner.fit.changes import list_changes, to_json_value
from service.planner.fit.evaluator import Config, Evaluator
from service.planner.fit.hardware import lacks_bf16
from service.planner.fit.remedy import Remedy
from service.planner.fit.verdict import Verdict, judge, missing_bytes
from service.planner.remedies.costs import compare_costs, time_config
from service.planner.remedies.effects import count_global_batch
from service.planner.remedies.fewest import find_fewest
from service.planner.remedies.trials import Trials
from service.planner.search.offer import Offer
from service.planner.search.search_space import Limits, Question

OtherGpus = Callable[[Device], Iterable[Evaluator]]
"""Gives the same model on the other known GPUs that may be had in place of one."""
MAX_SEARCHED_GPUS = 256
"""GPUs of one kind that the planner may lay a job out on."""
MAX_GROWN_GPUS = 64
"""GPUs that a global batch may grow with."""
_OPEN = frozenset({"activation_checkpointing", "selective_every"})
"""Fields of a workload that the planner may set: none of them changes what is computed."""
_BATCH = frozenset({"micro_batch_size", "gradient_accumulation_steps"})
"""Fields that it may set as well where the global batch is fixed."""
_NODE = frozenset({"gpus_per_node", "network_bytes_per_second", "host_memory_bytes", "nvme_bytes"})
_FORMATS = ("precision", "weight_dtype", "kv_cache_dtype")


def list_no_other_gpus(_device: Device) -> Iterable[Evaluator]:
    """Return no other GPU."""
    return ()


def list_larger_gpus(device: Device, other_gpus: OtherGpus) -> list[Evaluator]:
    """Return evaluators on the GPUs with more memory, the smallest first."""
    larger = (
        evaluator
        for evaluator in other_gpus(device)
        if evaluator.device.usable_bytes > device.usable_bytes
        and _runs_alike(device, evaluator.device)
    )
    return sorted(larger, key=lambda evaluator: evaluator.device.usable_bytes)


def find_larger_gpus(trials: Trials, larger: Iterable[Evaluator]) -> list[Remedy]:
    """Return kinds of GPU on which the question fits as it is.

    They are the cheapest, and of the others that with least memory. Numbers say which may fit and
    what they cost; those two are answered in full.
    """
    smallest_first = [
        (cost, evaluator)
        for evaluator in larger
        if (cost := _estimate_cost(trials, evaluator)) is not None
    ]
    remedies: list[Remedy] = []
    for ordered in (sorted(smallest_first, key=lambda pair: pair[0]), smallest_first):
        named = {remedy.gpu for remedy in remedies}
        remaining = (evaluator for _, evaluator in ordered if evaluator.device.name not in named)
        answered = (_answer_on(trials, evaluator, trials.base) for evaluator in remaining)
        remedies += islice((remedy for remedy in answered if remedy is not None), 1)
    return remedies


def find_planned(trials: Trials, evaluator: Evaluator) -> Remedy | None:
    """Return the planner's layout on the fewest GPUs of a kind.

    What is computed stays, the global batch as well; layout, micro batches and recomputation are
    the planner's.
    """
    workload, layout = trials.base
    limits = Limits(max_gpus=MAX_SEARCHED_GPUS)
    if isinstance(workload, TrainWorkload):
        limits = replace(limits, global_batch_size=count_global_batch(workload, layout))
    return _plan(trials, evaluator, limits, _OPEN | _BATCH)


def find_larger_batch(trials: Trials, evaluator: Evaluator) -> Remedy | None:
    """Return the same with a global batch that grows with the ranks."""
    return _plan(trials, evaluator, Limits(max_gpus=MAX_GROWN_GPUS), _OPEN)


def _plan(
    trials: Trials, evaluator: Evaluator, limits: Limits, searched: frozenset[str]
) -> Remedy | None:
    workload, layout = trials.base
    fixed = frozenset({field.name for field in fields(workload)} - searched) | _NODE
    question = Question(workload=workload, layout=layout, fixed=fixed, limits=limits)
    candidate = find_fewest(evaluator, question, Offer(device=evaluator.device))
    if candidate is None:
        return None
    return _answer_on(trials, evaluator, (candidate.workload, candidate.layout))


def _runs_alike(device: Device, other: Device) -> bool:
    """Return whether a question means the same on another GPU.

    Formats that a GPU lacks are replaced when it is asked.
    """
    return lacks_bf16(device) or not lacks_bf16(other)


def _estimate_cost(trials: Trials, evaluator: Evaluator) -> float | None:
    """Return the cost on a kind of GPU by numbers.

    None where they rule it out.

    Without a price it is more than that of any other.
    """
    try:
        bound = evaluator.lower_bound(*trials.base)
        estimate = evaluator.evaluate(*trials.base)
        timed = time_config(evaluator, trials.base, estimate, trials.prices)
    except EstimatorError:
        return None
    if missing_bytes(bound or estimate, evaluator.device, confident=True):
        return None
    cost = compare_costs(timed, trials.base_time).cost_ratio
    return inf if cost is None else cost


def _answer_on(trials: Trials, evaluator: Evaluator, config: Config) -> Remedy | None:
    """Return a configuration on a kind of GPU, if it fits."""
    device = evaluator.device
    with suppress(EstimatorError):
        estimate = evaluator.answer(*config)
        verdict = judge(estimate, device).verdict
        if verdict is Verdict.FITS:
            change = _list_changes(trials, device, config)
            return trials.build_remedy(evaluator, config, estimate, change, verdict)
    return None


def _list_changes(trials: Trials, device: Device, config: Config) -> Mapping[str, object]:
    """Return the fields that differ, with the kind of GPU.

    A GPU that lacks bf16 has chosen formats, which another one would choose otherwise: they are
    spelt out then.
    """
    before = trials.evaluator.device
    changes = dict(list_changes(trials.base, config))
    if device.name == before.name:
        return changes
    formats: dict[str, object] = {}
    if lacks_bf16(before):
        formats = {
            field.name: to_json_value(getattr(config[0], field.name))
            for field in fields(config[0])
            if field.name in _FORMATS
        }
    return {"gpu": device.name} | changes | formats
