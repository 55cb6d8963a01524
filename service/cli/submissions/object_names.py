"""Names of Kubernetes objects, and what refers to them.

Other words may be spelled like a name, and stay: a job named ``train`` runs ``train.py``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_REFERENCES: Mapping[str, str] = {
    "claimName": "PersistentVolumeClaim",
    "resourceClaimName": "ResourceClaim",
    "resourceClaimTemplateName": "ResourceClaimTemplate",
    "secretName": "Secret",
    "serviceAccountName": "ServiceAccount",
    "serviceName": "Service",
    "subdomain": "Service",
}
"""Fields that name an object, by its kind."""
_REFERENTS: Mapping[str, str] = {
    "configMap": "ConfigMap",
    "configMapKeyRef": "ConfigMap",
    "configMapRef": "ConfigMap",
    "imagePullSecrets": "Secret",
    "secretKeyRef": "Secret",
    "secretRef": "Secret",
    "service": "Service",
}
"""Fields whose ``name`` does."""
_LABELS = frozenset(("labels", "matchLabels", "selector"))
_TEXTS = frozenset(("args", "command", "data", "value"))
"""Fields in which addresses are written, and words of any other kind."""
_PLACES = frozenset(("nodeAffinity", "nodeSelector"))
"""Fields with labels of nodes, which a submission does not rename."""
_START, _END = r"(?:(?<![\w./-])|(?<=://))", r"(?![\w.-])"
_DOMAIN = r"(?=\.[a-z0-9-]+\.svc(?![\w-]))"


def rename_objects(
    items: Sequence[dict[str, Any]], suffix: str, max_length: int
) -> list[dict[str, Any]]:
    """Return objects with a suffix to their names.

    All that refers to them has it as well.
    """
    objects = frozenset((str(item["kind"]), str(item["metadata"]["name"])) for item in items)
    length = max_length - len(suffix) - 1
    names = {name: f"{name[:length].rstrip('-.')}-{suffix}" for _, name in objects}
    renaming = _Renaming(names=names, objects=objects, addresses=_find_addresses(objects))
    return [renaming.rename(item, "") for item in items]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Renaming:
    """New names of objects, and the addresses of services among them."""

    names: Mapping[str, str]
    objects: frozenset[tuple[str, str]]
    addresses: re.Pattern[str] | None

    def rename(self, value: Any, parent: str) -> Any:  # noqa: ANN401 - JSON
        """Return a value of a field, with new names."""
        match value:
            case dict():
                return {key: self._rename_field(parent, key, item) for key, item in value.items()}
            case list():
                return [self.rename(item, parent) for item in value]
            case _:
                return value

    def _rename_field(self, parent: str, key: str, value: Any) -> Any:  # noqa: ANN401 - JSON
        if key in _PLACES:
            return value
        if key in _TEXTS:
            return self._readdress(value)
        if key in _LABELS or (parent, key) == ("matchExpressions", "values"):
            return self._relabel(value, key)
        if isinstance(value, str):
            kind = _REFERENTS.get(parent) if key == "name" else _REFERENCES.get(key)
            is_object = (parent, key) == ("metadata", "name") or (kind, value) in self.objects
            return self.names.get(value, value) if is_object else value
        return self.rename(value, key)

    def _relabel(self, value: Any, key: str) -> Any:  # noqa: ANN401 - JSON
        match value:
            case str():
                return self.names.get(value, value)
            case list():
                return [self._relabel(item, key) for item in value]
            case dict():
                return {
                    name: self._relabel(item, key)
                    if isinstance(item, str)
                    else self._rename_field(key, name, item)
                    for name, item in value.items()
                }
            case _:
                return value

    def _readdress(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        match value:
            case str() if self.addresses is not None:
                return self.addresses.sub(self._rename_address, value)
            case list():
                return [self._readdress(item) for item in value]
            case dict():
                return {key: self._readdress(item) for key, item in value.items()}
            case _:
                return value

    def _rename_address(self, match: re.Match[str]) -> str:
        return "".join(self.names.get(part, part) for part in match.groups() if part is not None)


def _find_addresses(objects: Iterable[tuple[str, str]]) -> re.Pattern[str] | None:
    """Return the pattern of addresses of services and their pods.

    A service alone is a word like any other, unless its domain or a scheme says that it is none.
    """
    services = {name for kind, name in objects if kind == "Service"}
    if not services:
        return None
    service, pod = _match_any(services), _match_any({name for _, name in objects})
    return re.compile(
        rf"{_START}(?:{pod}(-\d+\.){service}(?:{_DOMAIN}|{_END})|{service}{_DOMAIN})"
        rf"|(?<=://){service}{_END}"
    )


def _match_any(names: Iterable[str]) -> str:
    return f"({'|'.join(re.escape(name) for name in sorted(names))})"
