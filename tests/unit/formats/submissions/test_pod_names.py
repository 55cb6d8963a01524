"""Pods and their owners, by their names."""

import pytest

from service.formats.submissions.pod_names import is_pod_of, list_owner_names


@pytest.mark.parametrize(
    ("pod", "owner"),
    [
        ("tune", "tune"),
        ("tune-x7x2k", "tune"),
        ("tune-12-x7x2k", "tune"),
        ("serve-6b8d9c5f7-x7x2k", "serve"),
        ("serve-0", "serve"),
        ("serve-0-3", "serve"),
        ("gang-workers-0-1-x7x2k", "gang"),
        ("ray-raycluster-x7x2k-gpu-worker-b2b2b", "ray"),
        ("tune-x7x2k-b2b2b", "tune-"),
        ("notebook-x7x2k", "notebook-"),
    ],
)
def test_a_pod_has_the_name_of_its_owner(pod: str, owner: str) -> None:
    """Of a Pod, a Job, an indexed one, and each other kind that the webhook is shown."""
    names = list_owner_names(pod)

    assert owner in names
    assert pod in names


@pytest.mark.parametrize(
    ("pod", "other"),
    [
        ("train-big-x7x2k", "train"),
        ("trainer-x7x2k", "train"),
        ("train-x7x2k", "train-x7x2k-"),
        ("train-abcde", "train"),
        ("train", "train-big"),
        ("train-x7x2k", ""),
    ],
)
def test_a_pod_of_another_is_not_taken(pod: str, other: str) -> None:
    """What a controller adds has letters of its own, without vowels."""
    assert not is_pod_of(pod, other)
