"""LMDeploy and Text Generation Inference by the rule of their pools."""

from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Engine, Quantization, ServeWorkload

DEVICE = resolve_gpu("H100-SXM5-80GB").to_device()


def _serve(
    engine: Engine,
    name: str = "llama-3.1-8b",
    layout: Layout | None = None,
    **words: Any,  # noqa: ANN401 - each word has its own type
) -> Estimate:
    asked: dict[str, Any] = {"num_sequences": 8, "prompt_tokens": 2048, "max_model_len": 8192}
    model = load_architecture(resolve_model(name))
    workload = ServeWorkload(**({"engine": engine} | asked | words))
    return estimate(model, workload, layout=layout or Layout(), device=DEVICE)


def _size(answer: Estimate, *names: str) -> int:
    return sum(component.bytes for component in answer.components if component.name in names)


@pytest.mark.parametrize(("fraction", "share"), [(None, 0.8), (0.5, 0.5)])
def test_lmdeploy_takes_its_share_of_what_the_weights_leave(
    fraction: float | None, share: float
) -> None:
    """The pool is ``cache_max_entry_count`` of free bytes, in blocks of 64 tokens; what a step
    needs lives in the remainder.
    """
    answer = _serve(Engine.LMDEPLOY, gpu_memory_fraction=fraction)
    free = DEVICE.usable_bytes - _size(answer, "weights", "device_context")
    block = 64 * 131_072

    assert _size(answer, "kv_cache") == int(free * share) // block * block
    assert answer.device_bytes <= DEVICE.usable_bytes


@pytest.mark.parametrize(("fraction", "share"), [(None, 0.9), (0.5, 0.45)])
def test_tgi_takes_its_share_of_the_gpu_less_a_full_step(
    fraction: float | None, share: float
) -> None:
    """``TGI_WIGGLE_ROOM`` leaves a tenth, and ``--cuda-memory-fraction`` counts beside it."""
    answer = _serve(Engine.TGI, gpu_memory_fraction=fraction)
    fixed = _size(answer, "weights", "device_context", "activations")

    assert _size(answer, "kv_cache") == pytest.approx(
        DEVICE.usable_bytes * share - fixed, abs=2 * 131_072
    )


@pytest.mark.parametrize("engine", [Engine.LMDEPLOY, Engine.TGI])
def test_ranks_share_weights_and_cache(engine: Engine) -> None:
    """Two tensor ranks hold half of the heads each."""
    one, two = (_serve(engine, layout=layout) for layout in (Layout(), Layout(tensor_parallel=2)))

    assert one.serving is not None
    assert two.serving is not None
    assert two.serving.kv_bytes_per_token * 2 == one.serving.kv_bytes_per_token
    assert _size(two, "weights") < 0.51 * _size(one, "weights")


@pytest.mark.parametrize(
    ("engine", "name", "layout", "words"),
    [
        (Engine.LMDEPLOY, "gemma-2-9b", Layout(), {}),
        (Engine.LMDEPLOY, "llama-3.1-8b", Layout(), {"kv_cache_dtype": DType.FP8}),
        (Engine.LMDEPLOY, "llama-3.1-8b", Layout(), {"quantization": Quantization.NF4}),
        (Engine.TGI, "mamba-2.8b", Layout(), {}),
        (Engine.TGI, "llama-3.1-8b", Layout(pipeline_parallel=2), {}),
        (Engine.TGI, "llama-3.1-8b", Layout(), {"max_num_sequences": 4}),
        (Engine.TGI, "llama-3.1-8b", Layout(), {"engine_version": "1.0"}),
    ],
)
def test_what_they_do_not_run_is_refused(
    engine: Engine, name: str, layout: Layout, words: dict[str, Any]
) -> None:
    """Families, layouts, formats and words without a term say what has one."""
    with pytest.raises(NotModelledError) as refusal:
        _serve(engine, name, layout, **words)

    assert refusal.value.modelled
