"""Pod sets of a Workload, as jobs on candidate GPUs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.catalog.gpus import find_gpus
from service.catalog.prices import list_prices
from service.estimator.values.errors import EstimatorError
from service.formats.gpu_requests.pod_products import PRODUCT_LABELS, clean_product, list_products
from service.formats.submissions.kubernetes import read_object
from service.formats.submissions.pod_groups import RESOURCES
from service.formats.submissions.submission import ANNOTATION
from service.kueue.api import Json, get_metadata
from service.kueue.resources import JOB_SETS, JOBS

Product = tuple[str, str]
"""Label of the nodes of a kind of GPU, and its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """Pods of a Workload that ask for GPUs.

    ``count`` of them were admitted; ``flavor`` is the ResourceFlavor that they got for their GPUs.
    """

    name: str
    template: Json
    count: int
    flavor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """GPUs that a pod set may get.

    ``products`` begin with the cheapest, and are empty where nothing says which; ``is_settled``
    where its flavor or its own selector names the one that it gets.
    """

    products: tuple[Product, ...]
    is_settled: bool


def list_pod_sets(workload: Json) -> tuple[PodSet, ...]:
    """Return the pod sets that ask for GPUs."""
    admission = (workload.get("status") or {}).get("admission") or {}
    assigned = {entry.get("name"): entry for entry in admission.get("podSetAssignments") or []}
    sets = [
        _read_pod_set(entry, assigned.get(entry.get("name"), {}))
        for entry in (workload.get("spec") or {}).get("podSets") or []
    ]
    return tuple(pod_set for pod_set in sets if _asks_for_gpus(pod_set.template))


def find_place(pod_set: PodSet, labels: Mapping[str, str]) -> Place:
    """Return the GPUs of a pod set.

    ``labels`` are those of its flavor's nodes.
    """
    spec: Json = pod_set.template.get("spec") or {}
    for selector in (labels, spec.get("nodeSelector") or {}):
        settled = [(label, str(selector[label])) for label in PRODUCT_LABELS if label in selector]
        if settled:
            return Place(products=tuple(settled[:1]), is_settled=True)
    return Place(products=tuple(sorted(list_products(spec), key=_get_price)), is_settled=False)


def make_job_set(
    workload: Json, pod_sets: Sequence[PodSet], judged: PodSet, product: Product | None
) -> Json:
    """Return a JobSet that asks about one pod set.

    It is on one kind of GPU. All its pods that ask for GPUs belong to one question.
    """
    metadata = get_metadata(workload)
    others = [pod_set for pod_set in pod_sets if pod_set is not judged]
    return {
        "apiVersion": JOB_SETS.api_version,
        "kind": JOB_SETS.kind,
        "metadata": {
            name: metadata[name]
            for name in ("name", "namespace", "uid", "annotations")
            if name in metadata
        },
        "spec": {
            "replicatedJobs": [
                {
                    "name": pod_set.name,
                    "replicas": pod_set.count,
                    "template": {"spec": {"template": _select(pod_set.template, product)}},
                }
                for pod_set in (judged, *others)
            ]
        },
    }


def says_question(workload: Json, pod_sets: Sequence[PodSet]) -> bool:
    """Return whether a Workload or its pods carry a question."""
    documents = (workload, *(pod_set.template for pod_set in pod_sets))
    return any(
        ANNOTATION in (get_metadata(document).get("annotations") or {}) for document in documents
    )


def find_product(sku: str) -> Product | None:
    """Return the label of a GPU's nodes, if any.

    It is that of NVIDIA's feature discovery.
    """
    names = [name for entry in find_gpus(sku) for name in entry.aliases.get("gfd", ())]
    return (PRODUCT_LABELS[0], names[0]) if names else None


def _read_pod_set(pod_set: Json, assignment: Json) -> PodSet:
    flavors = assignment.get("flavors") or {}
    count = assignment.get("count")
    return PodSet(
        name=str(pod_set.get("name", "main")),
        template=pod_set.get("template") or {},
        count=int(pod_set.get("count", 1) if count is None else count),
        flavor=next((str(flavors[name]) for name in RESOURCES if name in flavors), None),
    )


def _select(template: Json, product: Product | None) -> Json:
    """Return pods that select a kind of GPU."""
    spec: Json = template.get("spec") or {}
    if product is None:
        return template
    selector = {**(spec.get("nodeSelector") or {}), product[0]: product[1]}
    return {**template, "spec": {**spec, "nodeSelector": selector}}


def _asks_for_gpus(template: Json) -> bool:
    try:
        job = read_object({"kind": JOBS.kind, "spec": {"template": template}})
    except EstimatorError:
        return False
    return job is not None and job.submission.gpus is not None


def _get_price(product: Product) -> float:
    """Return a GPU's price, infinite where it has none."""
    book = list_prices()
    prices = [
        book[entry.name].usd_per_gpu_hour
        for entry in find_gpus(clean_product(product[1]))
        if entry.name in book
    ]
    return min(prices, default=float("inf"))
