"""Calls of pipelines: weights by offloading, sizes that are refused, sums of components."""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.gpus import resolve_device
from service.catalog.pipelines.shipped import load_pipeline
from service.estimator.memory.allocator.replay_allocators import make_replay_allocator
from service.estimator.pipelines import reserving
from service.estimator.pipelines.decoding import read_pass
from service.estimator.pipelines.estimate import estimate_generation
from service.estimator.pipelines.extents import Extents
from service.estimator.pipelines.logs import Log
from service.estimator.pipelines.workload import GenerateWorkload, PipelineOffload
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Allocator

SIZES = Extents(batch=1, height=16, width=16)


def _estimate(name: str = "flux.1-dev", **words: Any) -> Estimate:  # noqa: ANN401 - words of a workload
    fields = {"height": 1024, "width": 1024, "guidance": False, **words}
    device = resolve_device("RTX-4090")
    return estimate_generation(load_pipeline(name), GenerateWorkload(**fields), device)


def _grow(*_: object, **__: object) -> int:
    allocator = make_replay_allocator(Allocator.DEFAULT)
    allocator.allocate_all([2**47] * 70)
    return allocator.reserved


def test_a_call_larger_than_any_number_of_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording that somebody sends can make as many storages as it likes."""
    pytest.importorskip("service.estimator.memory.allocator.native_heap")
    monkeypatch.setattr(reserving, "_replay_phase", _grow)

    with pytest.raises(InvalidInputError, match="2\\^53 bytes per GPU or more"):
        _estimate()


@pytest.mark.parametrize("offloading", list(PipelineOffload))
def test_components_are_the_devices_bytes(offloading: PipelineOffload) -> None:
    """Whatever stays on the host, the parts sum to what NVML shows."""
    estimate = _estimate(offloading=offloading)

    assert sum(part.bytes for part in estimate.components) == estimate.device_bytes


def test_model_offloading_leaves_one_component() -> None:
    """While it denoises only the transformer's 23.8 GB are on the GPU, and none between calls."""
    estimate = _estimate(offloading=PipelineOffload.MODEL)

    weights = [part for part in estimate.components if part.name.endswith("_weights")]
    assert [(part.name, part.bytes) for part in weights] == [
        ("transformer_weights", 2 * 11_901_408_320)
    ]
    assert estimate.steady_bytes == 0


def test_a_stream_brings_the_next_block_too() -> None:
    """A group with a stream has the weights of two blocks, and no more than that beside."""
    plain = _estimate(offloading=PipelineOffload.GROUP)
    streamed = _estimate(offloading=PipelineOffload.GROUP, offload_stream=True)

    loops = [
        next(part.parts["weights"] for part in answer.instants if part.name == "denoising")
        for answer in (plain, streamed)
    ]
    block = 2 * 339_831_296
    assert loops[1] - loops[0] == block


def test_an_fp16_vae_of_sdxl_decodes_in_fp32() -> None:
    """``force_upcast`` doubles the decoder's weights and its tensors."""
    half = _estimate("stable-diffusion-xl", dtype=DType.BF16)
    upcast = _estimate("stable-diffusion-xl", dtype=DType.FP16, vae_dtype=DType.FP16)

    decoding = [answer.instants[-1].parts["activations"] for answer in (half, upcast)]
    assert decoding[1] > 1.9 * decoding[0]


def test_tiles_take_less_than_the_whole_picture() -> None:
    """Beyond the size of a tile, tiling bounds the decoder; below it nothing changes."""
    whole, tiled = (
        _estimate(height=2048, width=2048, vae_tiling=tiling).instants[-1]
        for tiling in (False, True)
    )
    same = [_estimate(vae_tiling=tiling).device_bytes for tiling in (False, True)]

    assert tiled.parts["activations"] < whole.parts["activations"] / 2
    assert same[0] == same[1]


def test_a_long_video_is_decoded_in_parts() -> None:
    """HunyuanVideo's VAE cuts time by itself and area when asked, without which masks grow."""
    size = {"height": 320, "width": 512, "num_frames": 49}
    whole, tiled = (
        _estimate("hunyuanvideo", **size, vae_tiling=tiling).instants[-1].parts["activations"]
        for tiling in (False, True)
    )
    longer = _estimate("hunyuanvideo", **{**size, "num_frames": 97}).instants[-1]

    assert tiled < whole / 2
    assert longer.parts["activations"] < 1.1 * whole


@pytest.mark.parametrize(
    ("name", "words", "field"),
    [
        ("flux.1-dev", {"height": 1000}, "workload.height"),
        ("flux.1-dev", {"num_frames": 5}, "workload.num_frames"),
        ("wan2.1-t2v-14b", {"num_frames": 80}, "workload.num_frames"),
        ("stable-diffusion-xl", {"max_sequence_length": 99}, "workload.max_sequence_length"),
        ("flux.1-dev", {"offload_stream": True}, "workload.offload_stream"),
    ],
)
def test_sizes_that_a_pipeline_refuses(name: str, words: dict[str, Any], field: str) -> None:
    """The error names the word."""
    with pytest.raises(InvalidInputError) as raised:
        _estimate(name, **words)

    assert raised.value.field == field


def test_what_has_no_recording_is_refused() -> None:
    """Few frames, a denoiser in fp32, and calls that no loop is recorded of have no term."""
    for name, words in (
        ("wan2.1-t2v-14b", {"num_frames": 9, "vae_tiling": True}),
        ("flux.1-dev", {"dtype": DType.FP32}),
        ("hunyuanvideo", {"num_frames": 1}),
        ("flux.2-dev", {"guidance": True}),
        ("z-image", {"images_per_prompt": 2}),
    ):
        with pytest.raises(NotModelledError):
            _estimate(name, **words)


def test_a_side_between_steps_is_an_upper_bound() -> None:
    """A height of 520 is counted as 576, and the answer says so."""
    between, above = (
        _estimate("stable-diffusion-1.5", height=height, width=512) for height in (520, 576)
    )

    assert between.allocated_bytes == above.allocated_bytes
    assert any("520 is counted as 576" in line for line in between.warnings)


@pytest.mark.parametrize("events", [[5], [2, 2]])
def test_a_module_is_left_as_often_as_it_is_entered(events: list[int]) -> None:
    """Events that leave a module before it runs, or enter it twice, are none."""
    entry = {"events": events, "kinds": [], "workspaces": [], "modules": ["vae.a"]}

    with pytest.raises(ValueError, match="module 0"):
        read_pass(entry)


@pytest.mark.parametrize("config", [{"sample_size": 4}, {"sample_size": None}, {}])
def test_a_decoder_without_a_tile_is_refused(config: dict[str, object]) -> None:
    """A recording's config of no tile, or of one without a step, is refused in words."""
    pipeline = load_pipeline("flux.1-dev")
    vae = replace(pipeline.components["vae"], config={"block_out_channels": [1] * 4, **config})
    odd = replace(pipeline, components={**pipeline.components, "vae": vae})
    workload = GenerateWorkload(height=1024, width=1024, guidance=False, vae_tiling=True)

    with pytest.raises(InvalidInputError, match="sample_size"):
        estimate_generation(odd, workload, resolve_device("RTX-4090"))


@pytest.mark.parametrize("coefficient", [-(2**50), 2**53])
def test_a_size_that_no_storage_has_is_refused(coefficient: int) -> None:
    """A stranger's recording makes nothing of negative or unheard-of bytes."""
    entry = {
        "events": [0],
        "kinds": [[[[0] * len(SIZES.numbers), coefficient]]],
        "workspaces": [],
        "modules": [],
    }
    log = read_pass(entry)
    assert isinstance(log, Log)

    with pytest.raises(InvalidInputError, match="makes a storage of"):
        log.price(SIZES)
