"""The larger GPUs that a search offers where one is too small."""

from itertools import pairwise

import pytest

from service.catalog.gpus import resolve_device, resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.cache import PlanCache
from service.usecases.questions.larger_gpus import make_larger_gpus


@pytest.mark.parametrize("name", ["RTX-3060-Laptop", "T4", "L4", "RTX-4090", "A100-SXM4-80GB"])
def test_a_larger_gpu_is_a_card_that_runs_as_much(name: str) -> None:
    """One of each size above the GPU's own: no laptop and no module, and no older chip, on which
    what is asked may not start.
    """
    asked = resolve_gpu(name)
    larger = make_larger_gpus(
        load_architecture(resolve_model("gpt2")),
        plans=PlanCache(),
        find_corrections=None,
        level=0.95,
    )

    found = [resolve_gpu(each.device.name) for each in larger(asked.to_device())]

    assert len(found) > 2
    assert {entry.form for entry in found} <= {"server", "workstation", "desktop"}
    assert all(
        float(entry.compute_capability or 0) >= float(asked.compute_capability or 0)
        for entry in found
    )
    assert all(
        round(one.capacity_bytes / 2**30) < round(next_one.capacity_bytes / 2**30)
        for one, next_one in pairwise([asked, *found])
    )


def test_a_larger_slice_comes_before_another_gpu() -> None:
    """Slices of the same GPU, one of each size, then all of it, then larger cards."""
    asked = resolve_device("H100-SXM5-80GB/1g.10gb")
    larger = make_larger_gpus(
        load_architecture(resolve_model("gpt2")),
        plans=PlanCache(),
        find_corrections=None,
        level=0.95,
    )

    names = [each.device.name for each in larger(asked)]

    assert [name.rpartition("-")[2] for name in names[:4]] == [
        "1g.20gb",
        "3g.40gb",
        "7g.80gb",
        "80GB",
    ]
    assert len(set(names)) == len(names)
    assert names.index("RTX-5090") > 3
