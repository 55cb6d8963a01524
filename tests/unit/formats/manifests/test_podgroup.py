"""Kubernetes' own gang: all pods of a job or none."""

from typing import Any

import pytest
from kubernetes_validate import ValidationError, validate

from service.estimator.values.layout import Layout
from service.formats.manifests.registry import render_format
from tests.unit.formats.renderings.builders import a_job


def _list_items() -> list[dict[str, Any]]:
    document: Any = render_format("podgroup", a_job()).document
    items: list[dict[str, Any]] = document["items"]
    return items


def test_the_gang_is_all_pods_of_the_job() -> None:
    """Two nodes are two pods, each of which names the group."""
    group, *_, job = _list_items()

    assert group["spec"]["schedulingPolicy"]["gang"]["minCount"] == job["spec"]["completions"] == 2
    assert job["spec"]["template"]["spec"]["schedulingGroup"] == {
        "podGroupName": group["metadata"]["name"]
    }


def test_kubernetes_schema_takes_the_gang() -> None:
    """Kubernetes 1.37's own schema, strict, refuses none of its objects."""
    for item in _list_items():
        validate(item, "1.37", strict=True)


def test_the_schema_refuses_a_gang_of_an_older_shape() -> None:
    """A count beside the policy is no field of v1beta1."""
    group = _list_items()[0]
    group["spec"]["minCount"] = 2

    with pytest.raises(ValidationError):
        validate(group, "1.37", strict=True)


def test_one_pod_is_no_gang() -> None:
    """It is refused with the format that carries it."""
    rendering = render_format("podgroup", a_job(layout=Layout(data_parallel=2)))

    assert rendering.reason is not None
    assert rendering.reason.endswith("format kubernetes")
