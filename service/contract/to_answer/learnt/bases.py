"""Bases of an estimate as the contract's answer."""

from msgspec import UNSET, UnsetType

from service.contract.schemas.calibrations import BasesAnswer, ClusterBasisAnswer
from service.estimator.values.corrections import SEEN
from service.estimator.values.result import Estimate

_ANALYTIC = "analytic"
_NAMES = {
    "allocated": "allocated",
    "reserved": "reserved",
    "device": "context",
    SEEN: "device",
    "step_time": "step_time",
    "prefill_time": "prefill_time",
}
"""Names in an answer by the quantity that is learnt."""


def build_bases(estimate: Estimate) -> BasesAnswer:
    """Return the basis of each quantity."""
    bases = estimate.bases
    return BasesAnswer(
        allocated=bases.get("allocated", _ANALYTIC),
        reserved=bases.get("reserved", _ANALYTIC),
        context=bases.get("device", _ANALYTIC),
        step_time=bases.get("step_time", _ANALYTIC),
        prefill_time=None if estimate.serving is None else bases.get("prefill_time", _ANALYTIC),
    )


def build_cluster_basis(estimate: Estimate, cluster: str) -> ClusterBasisAnswer | UnsetType:
    """Return what rests on a cluster's own measurements, if one is named."""
    if not cluster:
        return UNSET
    names = [word for quantity, word in _NAMES.items() if quantity in estimate.cluster_quantities]
    if estimate.serving is None:
        names = [word for word in names if word != "prefill_time"]
    return ClusterBasisAnswer(name=cluster, quantities=names)
