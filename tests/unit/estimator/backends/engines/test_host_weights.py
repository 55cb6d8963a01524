"""llama.cpp over several GPUs and the host, and weights that other engines leave on the host."""

from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.backends.llama_cpp.answer import list_cache_bytes
from service.estimator.backends.llama_cpp.devices import count_weight_bytes, place_layers
from service.estimator.backends.llama_cpp.gguf import file_bytes
from service.estimator.estimate import estimate
from service.estimator.values.dtypes import CacheType, DType
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.units import GIB
from service.estimator.values.workload import Attention, Engine, Quantization, ServeWorkload

LLAMA, MIXTRAL = (
    load_architecture(resolve_model(name)) for name in ("llama-3.1-8b", "mixtral-8x7b")
)
ONE, TWO, ROWS = Layout(), Layout(pipeline_parallel=2), Layout(tensor_parallel=2)


def _workload(**words: Any) -> ServeWorkload:  # noqa: ANN401 - each word has its own type
    asked: dict[str, Any] = {
        "num_sequences": 4,
        "prompt_tokens": 1024,
        "output_tokens": 1024,
        "engine": Engine.LLAMA_CPP,
        "quantization": Quantization.Q4_K_M,
    }
    return ServeWorkload(**(asked | words))


def _serve(layout: Layout = ONE, *, model: Any = LLAMA, **words: Any) -> Estimate:  # noqa: ANN401 - each word has its own type
    device = resolve_gpu("H100-SXM5-80GB").to_device()
    return estimate(model, _workload(**words), layout=layout, device=device)


def _size(answer: Estimate, name: str) -> int:
    return sum(component.bytes for component in answer.components if component.name == name)


@pytest.mark.parametrize("layout", [ONE, TWO, Layout(pipeline_parallel=3), ROWS])
@pytest.mark.parametrize(
    "words", [{}, {"gpu_layers": 20}, {"gpu_layers": 0}, {"cpu_moe_layers": 5}]
)
def test_every_tensor_has_one_place(layout: Layout, words: dict[str, int]) -> None:
    """What GPUs and host hold is the file, whatever the split; rows are rounded up."""
    tensors = file_bytes(MIXTRAL, Quantization.Q4_K_M, DType.BF16)
    placement = place_layers(MIXTRAL.num_hidden_layers, _workload(**words), layout)

    places = [count_weight_bytes(tensors, placement, None)]
    places += [count_weight_bytes(tensors, placement, gpu) for gpu in range(placement.num_gpus)]

    assert sum(places) == pytest.approx(tensors.head + tensors.layers, abs=2)


@pytest.mark.parametrize(
    ("gpus", "requested", "devices"),
    [
        (2, None, [0] * 17 + [1] * 16),
        (2, 33, [0] * 17 + [1] * 16),
        (3, None, [0] * 11 + [1] * 11 + [2] * 11),
        (2, 9, [None] * 24 + [0] * 5 + [1] * 4),
        (1, 0, [None] * 33),
    ],
)
def test_layers_go_to_gpus_in_equal_stretches(
    gpus: int, requested: int | None, devices: list[int | None]
) -> None:
    """32 layers and the output are 33; the first stay with the host."""
    placement = place_layers(32, _workload(gpu_layers=requested), Layout(pipeline_parallel=gpus))

    assert list(placement.devices) == devices


def test_shares_decide_where_a_layer_stands() -> None:
    """Three quarters of 33 end in the 25th: equal stretches said that the first GPU has 17."""
    words: dict[str, Any] = {"tensor_split": (3.0, 1.0)}
    placement = place_layers(32, _workload(**words), TWO)
    equal, unlike = _serve(TWO), _serve(TWO, **words)

    assert list(placement.devices) == [0] * 25 + [1] * 8
    assert _size(unlike, "weights") > 1.3 * _size(equal, "weights")
    assert _size(_serve(ROWS, **words), "weights") == pytest.approx(
        _size(_serve(), "weights") * 3 / 4, abs=1
    )


def test_a_cache_in_blocks_takes_the_bytes_of_its_blocks() -> None:
    """34 bytes for 32 numbers, where 16 bits take 64; layers with a window too."""
    for model in (LLAMA, load_architecture(resolve_model("gemma-2-2b"))):
        whole, blocks = (
            _size(_serve(model=model, cache_type=kind), "kv_cache")
            for kind in (None, CacheType.Q8_0)
        )
        assert blocks * 64 == whole * 34


def test_a_larger_micro_batch_has_a_larger_graph() -> None:
    """Its logits are of every token of it."""
    small, large = (_serve(max_num_batched_tokens=size) for size in (512, 2048))

    assert _size(large, "activations") == 4 * _size(small, "activations")
    assert _size(small, "activations") == _size(_serve(), "activations")


def test_two_gpus_share_layers_and_cache() -> None:
    """The first GPU has 17 layers of 32 and no logits, the second 15 and the output."""
    alone, split = _serve(), _serve(TWO)
    caches = list_cache_bytes(LLAMA, _workload())

    assert split.num_gpus == 2
    assert len(split.stages) == 2
    assert sum(stage.steady_bytes for stage in split.stages) > alone.steady_bytes
    assert max(stage.steady_bytes for stage in split.stages) < alone.steady_bytes
    assert _size(split, "kv_cache") in {sum(caches[:17]), sum(caches[17:])}


def test_rows_are_split_evenly() -> None:
    """Both GPUs hold half of every matrix, and the cache of their own layers."""
    answer = _serve(ROWS)

    assert _size(answer, "weights") == pytest.approx(_size(_serve(), "weights") / 2, abs=1)


def test_layers_on_the_host_are_the_hosts() -> None:
    """What leaves the GPU arrives at the host, cache included; the graph copies one tensor back."""
    whole, part = _serve(), _serve(gpu_layers=16)
    leaves = sum(_size(whole, name) - _size(part, name) for name in ("weights", "kv_cache"))

    assert leaves > 0
    assert part.host_bytes_per_node - whole.host_bytes_per_node == leaves
    assert _size(part, "activations") > _size(whole, "activations")
    assert any("no time is estimated" in warning for warning in part.warnings)


def test_experts_on_the_host_leave_attention_behind() -> None:
    """``--n-cpu-moe 32`` moves nearly all of Mixtral, and none of its cache."""
    whole, part = _serve(model=MIXTRAL), _serve(model=MIXTRAL, cpu_moe_layers=32)

    assert _size(part, "weights") < 0.05 * _size(whole, "weights")
    assert _size(part, "kv_cache") == _size(whole, "kv_cache")


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
def test_offloaded_weights_make_room_for_the_pool(engine: Engine) -> None:
    """Ten GiB less of weights are ten GiB more of pool, and ten on the host."""
    words: dict[str, Any] = {"engine": engine, "quantization": Quantization.NONE}
    whole, part = _serve(**words), _serve(cpu_offload_gb=10.0, **words)

    assert _size(whole, "weights") - _size(part, "weights") == 10 * GIB
    assert _size(part, "kv_cache") - _size(whole, "kv_cache") == pytest.approx(10 * GIB, rel=1e-3)
    assert part.host_bytes_per_node == 10 * GIB


def test_a_nodes_host_has_the_weights_of_its_own_ranks() -> None:
    """Sixteen GPUs are on two nodes, whose hosts keep ten GiB for each of eight."""
    words: dict[str, Any] = {"engine": Engine.VLLM, "quantization": Quantization.NONE}

    answers = [
        _serve(layout, cpu_offload_gb=10.0, **words)
        for layout in (Layout(data_parallel=2), Layout(data_parallel=16))
    ]

    assert [answer.host_bytes_per_node for answer in answers] == [20 * GIB, 80 * GIB]


def test_no_more_is_offloaded_than_layers_have() -> None:
    """Table, head and norms stay on the GPU: 2 x 128,256 x 4,096 in 16 bits and more."""
    words: dict[str, Any] = {"engine": Engine.VLLM, "quantization": Quantization.NONE}

    left = _size(_serve(cpu_offload_gb=100.0, **words), "weights")

    assert 2 * 2 * 128_256 * 4096 < left < 1.1 * 2 * 2 * 128_256 * 4096


@pytest.mark.parametrize(
    ("layout", "words", "refusal"),
    [
        (Layout(tensor_parallel=2, pipeline_parallel=2), {}, "by layers"),
        (ONE, {"cpu_moe_layers": 3}, "has none"),
        (ONE, {"tensor_split": (1.0, 1.0)}, "a share for each GPU"),
        (TWO, {"tensor_split": (0.0, 0.0)}, "a share for each GPU"),
        (ONE, {"cache_type": CacheType.Q4_0, "attention": Attention.EAGER}, "flash attention"),
        (ONE, {"cpu_offload_gb": 3.0}, "cpu_offload_gb of llama.cpp"),
        (ONE, {"engine": Engine.VLLM, "gpu_layers": 3, "quantization": "none"}, "engine llama_cpp"),
        (ONE, {"engine": Engine.TRANSFORMERS, "cpu_offload_gb": 3.0}, "device_map"),
        (ONE, {"engine": Engine.TENSORRT_LLM, "cpu_offload_gb": 3.0}, "engine vllm or sglang"),
    ],
)
def test_words_of_other_engines_are_refused(
    layout: Layout, words: dict[str, Any], refusal: str
) -> None:
    """Each refusal says whose word it is, or what there is in its place."""
    words = {"quantization": Quantization.NONE} | words
    words["quantization"] = Quantization(words["quantization"])

    with pytest.raises(EstimatorError, match=refusal) as error:
        _serve(layout, **words)

    assert (
        "modelled" in str(error.value)
        or "leave" in str(error.value)
        or "not by" in str(error.value)
    )
