"""Readings of the trace probe as measurements of curves: each model at several sizes, beside its
answers.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from service.calibration.evidence import Evidence
from service.catalog.models import load_config, resolve_model
from service.catalog.prior_measurements import PriorMeasurement, read_priors
from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.usecases.learning.analytic_answers import ANY_DEVICE
from service.usecases.learning.evidence import EvidenceSet
from service.usecases.learning.shipped_priors import as_evidence

READINGS = Path(__file__).resolve().parents[2] / "data" / "probes" / "trace.json"

Mistake = Callable[[Mapping[str, Any]], Mapping[str, object]]
"""What the estimator is made to believe of a config.json: entries that are other than they are."""


@cache
def readings() -> tuple[PriorMeasurement, ...]:
    """Return everything that ``python -m tests.accuracy.priors`` measured."""
    return tuple(read_priors("trace", READINGS.read_bytes()))


def curves(mistake: Mistake | None = None) -> dict[str, list[Evidence]]:
    """Return the allocated bytes of every curve, each with its sizes in the order in which they
    were measured.
    """
    plans = PlanCache()
    found: dict[str, list[Evidence]] = {}
    for prior in readings():
        known = as_evidence(prior, plans)
        assert known is not None, f"the estimator has an answer to {prior.id}"
        curve, one = known
        sample = one.evidence[0]
        if mistake is not None:
            sample = replace(sample, predicted=_believed(prior, one, mistake))
        found.setdefault(f"{prior.model} {curve}", []).append(sample)
    return found


def with_relu(config: Mapping[str, Any]) -> dict[str, object]:
    """Take the activation for a ReLU, as of a model whose own nobody has modelled."""
    known = {"gpt2": "activation_function", "gemma3_text": "hidden_activation"}
    return {known.get(config["model_type"], "hidden_act"): "relu"}


def half_as_wide(config: Mapping[str, Any]) -> dict[str, object]:
    """Take the feed-forward layers for half as wide: weights, states and activations are
    missing.
    """
    name = "n_inner" if config["model_type"] == "gpt2" else "intermediate_size"
    return {name: (config.get(name) or 4 * config["n_embd"]) // 2}


def _believed(prior: PriorMeasurement, found: EvidenceSet, mistake: Mistake) -> dict[str, int]:
    """Return what is answered about a model that is taken for another."""
    config = load_config(resolve_model(prior.model))
    model = architecture_from_config({**config, **mistake(config)})
    request = found.analytic.request
    answer = estimate(model, request.task.workload, layout=request.layout, device=ANY_DEVICE)
    return {instant.name: instant.allocated_bytes for instant in answer.instants}
