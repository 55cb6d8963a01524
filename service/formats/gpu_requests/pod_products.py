"""GPU products that a pod selects its nodes by."""

from collections.abc import Iterator, Mapping

Json = Mapping[str, object]
GPU = "nvidia.com/gpu"
AMD = "amd.com/gpu"
MIG = "nvidia.com/mig-"
SHARED = "nvidia.com/gpu.shared"
"""Resource of GPUs that several pods share, where it has a name of its own."""
SHARED_SUFFIX = "-SHARED"
PRODUCT_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "beta.amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
"""Labels that name a node's GPUs, the driver's own first."""


def list_names(spec: Json) -> list[str]:
    """Return the GPUs that a pod names, if any."""
    return [clean_product(name) for name in list_labels(spec)]


def list_labels(spec: Json) -> list[str]:
    """Return the products that a pod names, as labels have them."""
    selector = _get_object(spec, "nodeSelector")
    values = [selector.get(label) for label in PRODUCT_LABELS]
    selected = [value for value in values if isinstance(value, str) and value]
    return selected or [name for _, name in list_products(spec)]


def list_products(spec: Json) -> tuple[tuple[str, str], ...]:
    """Return the GPU products that a pod's required node affinity names.

    Each is the label of a node, and its value.
    """
    return tuple(_iter_affine_products(spec))


def _iter_affine_products(spec: Json) -> Iterator[tuple[str, str]]:
    affinity = _get_object(_get_object(spec, "affinity"), "nodeAffinity")
    required = _get_object(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    for term in _list_objects(required, "nodeSelectorTerms"):
        for expression in _list_objects(term, "matchExpressions"):
            label, values = expression.get("key"), expression.get("values")
            if label in PRODUCT_LABELS and expression.get("operator") == "In":
                listed = values if isinstance(values, list) else []
                yield from ((str(label), value) for value in listed if isinstance(value, str))


def _get_object(part: Json, name: str) -> Json:
    value = part.get(name)
    return value if isinstance(value, Mapping) else {}


def _list_objects(part: Json, name: str) -> list[Json]:
    value = part.get(name)
    entries = value if isinstance(value, list) else []
    return [entry for entry in entries if isinstance(entry, Mapping)]


def clean_product(product: str) -> str:
    """Return a product label without the suffix of shared GPUs."""
    return product.removesuffix(SHARED_SUFFIX)
