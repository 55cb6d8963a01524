"""Steps of ``generate`` that transformers compiles over a static cache."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.values.generation import Client
from service.estimator.values.layout import Layout
from service.estimator.values.result import Throughput
from service.estimator.values.workload import Cache, ServeWorkload
from service.planner.fit.evaluator import make_evaluator

_H100 = resolve_gpu("H100-SXM5-80GB").to_device()
_DYNAMIC = ServeWorkload(
    num_sequences=4, prompt_tokens=512, output_tokens=32, client=Client.GENERATE
)


def _time(workload: ServeWorkload) -> Throughput:
    evaluator = make_evaluator(load_architecture(resolve_model("llama-3.2-1b")), _H100)
    found = evaluator.get_throughput(workload, Layout(), evaluator.answer(workload, Layout()))
    assert found is not None
    return found


def test_a_static_cache_spares_the_host_its_launches() -> None:
    """In decode alone: the prompt runs operation by operation."""
    dynamic, static = (
        _time(replace(_DYNAMIC, cache=cache)) for cache in (Cache.DYNAMIC, Cache.STATIC)
    )

    assert static.step_time_s < dynamic.step_time_s / 4
    assert static.prefill_time_s == dynamic.prefill_time_s


def test_releases_compile_since_the_first_that_did() -> None:
    """Release 4.47.0 has the compiled call in ``generation/utils.py``, and 4.46.3 has not."""
    before, since, newest = (
        _time(replace(_DYNAMIC, cache=Cache.STATIC, engine_version=version)).step_time_s
        for version in ("4.46.3", "4.47.0", None)
    )

    assert since == newest < before / 4


@pytest.mark.parametrize(
    "changes", [{"num_beams": 4}, {"client": Client.LOOP}, {"engine_version": "4.40"}]
)
def test_what_is_not_compiled_waits_for_the_host(changes: dict[str, object]) -> None:
    """Beams, a loop of one's own, and a release that did not compile."""
    workload = replace(_DYNAMIC, cache=Cache.STATIC, **changes)  # type: ignore[arg-type]  # fields of a replica

    found = _time(workload)

    assert found.step_time_s == found.host_time_s
    assert found.gpu_time_s < found.host_time_s / 2
