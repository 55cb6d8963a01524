"""Real tiny models on this CPU: what was measured is what the analytic walk says, instant by
instant.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.generation import Client
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Loss
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import (
    Attention,
    Cache,
    Checkpointing,
    Engine,
    Lora,
    TrainWorkload,
    Workload,
)
from service.jobs.contract import FailureKind, Planned, ProbeLine, ProbeRequest, Progress, Sample
from service.jobs.host import Host
from service.probing.refusal import Refusal
from tests.unit.probes.builders import GPT2, LLAMA, LORA, SERVE, TRAIN, by_name, measured, request
from worker.probes.cpu.backend import CpuBackend
from worker.probes.measure import measure

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"
    ),  # PEFT still asks for it
    pytest.mark.filterwarnings("ignore:.*TF32 acceleration on top of oneDNN:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*Profiler clears events:UserWarning"),
]


class SlowCpu(CpuBackend):
    """This processor, slowed down in what it says of itself."""

    def host(self, dtype: DType) -> Host:
        """Return a host with time for a few tokens."""
        del dtype
        return Host(available_bytes=2**40, flops_per_second=5e6)


def analytic(workload: Workload, config: Mapping[str, object]) -> dict[str, int]:
    """Return the analytic bytes by instant."""
    host = Device(name="host", capacity_bytes=2**60, usable_bytes=2**60)
    answer = estimate(architecture_from_config(config), workload, layout=Layout(), device=host)
    return {instant.name: instant.allocated_bytes for instant in answer.instants}


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(TRAIN, id="bf16"),
        pytest.param(replace(TRAIN, precision=POLICIES["amp_bf16"]), id="autocast"),
        pytest.param(replace(TRAIN, precision=POLICIES["bf16_mixed"]), id="16 bytes a parameter"),
        pytest.param(
            replace(TRAIN, precision=POLICIES["megatron_bf16"]), id="18 bytes a parameter"
        ),
        pytest.param(
            replace(TRAIN, precision=POLICIES["deepspeed_bf16"]), id="20 bytes a parameter"
        ),
        pytest.param(replace(TRAIN, optimizer="adamw_fused"), id="fused"),
        pytest.param(replace(TRAIN, optimizer="adamw_loop"), id="loop"),
        pytest.param(
            replace(TRAIN, precision=POLICIES["bf16_mixed"], optimizer="adamw_loop"),
            id="mixed loop",
        ),
        pytest.param(replace(TRAIN, optimizer="sgd"), id="sgd"),
        pytest.param(
            replace(TRAIN, precision=POLICIES["bf16_mixed"], optimizer="sgd_momentum"),
            id="mixed momentum",
        ),
        pytest.param(replace(TRAIN, attention=Attention.EAGER), id="eager"),
        pytest.param(replace(TRAIN, attention=Attention.MATH), id="math"),
        pytest.param(replace(TRAIN, attention=Attention.EFFICIENT), id="efficient"),
        pytest.param(replace(TRAIN, keeps_logits=True), id="kept logits"),
        pytest.param(replace(TRAIN, gradient_accumulation_steps=4), id="accumulation"),
        pytest.param(replace(TRAIN, gradient_clipping=True), id="clipping"),
        pytest.param(LORA, id="lora"),
        pytest.param(
            replace(LORA, lora=Lora(rank=4, targets=("q_proj", "v_proj"))), id="lora on two"
        ),
        pytest.param(SERVE, id="serving"),
        pytest.param(replace(SERVE, cache=Cache.STATIC), id="static cache"),
    ],
)
def test_every_instant_is_what_the_analytic_walk_says(workload: Workload) -> None:
    """Two independent counts, one of real storages and one on paper, agree within a thousandth at
    every instant.
    """
    found = by_name(measured(workload).instants)

    assert found == pytest.approx(analytic(workload, LLAMA), rel=1e-3, abs=1024)


@pytest.mark.parametrize("workload", [TRAIN, replace(TRAIN, precision=POLICIES["amp_bf16"]), LORA])
def test_another_family_agrees_at_its_peak(workload: TrainWorkload) -> None:
    """GPT-2, with dropout, biases, learned positions and transposed weights."""
    found = measured(workload, GPT2).peaks.allocated_bytes

    assert found == pytest.approx(max(analytic(workload, GPT2).values()), rel=1e-2)


def test_slices_answer_for_the_deep_model() -> None:
    """Two and three layers say what ten need, to the byte, which the fourth and the whole bear
    out.
    """
    deep = dict(LLAMA) | {"num_hidden_layers": 10}

    sliced, whole = measured(config=deep), measured(config=deep, full_depth=True)

    assert [probe.num_layers for probe in sliced.probes] == [2, 3, 4]
    assert (sliced.extrapolated, whole.extrapolated) == (True, False)
    assert by_name(sliced.instants) == pytest.approx(by_name(whole.instants), abs=64)
    assert sliced.steady_bytes == whole.steady_bytes
    assert any(
        note.startswith("the slices alone say") and note.endswith("+0.0000%")
        for note in whole.notes
    )
    assert not any("lie up to" in note for note in (*sliced.notes, *whole.notes))


def test_a_slow_host_still_answers_for_the_asked_tokens() -> None:
    """Where only a few tokens can be run, the answer is the analytic one shifted by what was
    measured, and says so.
    """
    result = measure(request(), lambda _line: None, backend=SlowCpu())

    ran = {probe.micro_batch_size * probe.sequence_length for probe in result.probes}
    assert result.extrapolated
    assert len(ran) == 2
    assert max(ran) < 128
    assert any("of 2 x 64 tokens" in note for note in result.notes)
    assert by_name(result.instants) == pytest.approx(by_name(measured().instants), rel=1e-3)


def test_checkpointing_keeps_one_hidden_state_a_layer() -> None:
    """Each layer more costs its input during forward, and nothing else beside its parameters and
    states.
    """
    workload = replace(TRAIN, activation_checkpointing=Checkpointing.FULL, optimizer="sgd")
    shallow, deep = (
        by_name(
            measured(workload, dict(LLAMA) | {"num_hidden_layers": depth}, full_depth=True).instants
        )
        for depth in (4, 8)
    )

    hidden_bytes = 2 * 64 * 128 * 2
    layer_bytes = (deep["load"] - shallow["load"]) // 4
    assert (deep["forward"] - shallow["forward"]) // 4 == layer_bytes + hidden_bytes


def test_a_cache_holds_keys_and_values_of_every_token() -> None:
    """The cache of a Hugging Face model is 2 x layers x sequences x tokens x key-value width x 2
    bytes; a plain loop reads every token.
    """
    result = measured(replace(SERVE, client=Client.LOOP))
    weights = by_name(result.instants)["load"]
    tokens = 64 + 8

    assert result.steady_bytes == weights + 2 * 3 * 2 * tokens * 64 * 2


def test_says_how_far_it_is() -> None:
    """The plan comes first; then progress grows from 0 to 1 in words and numbers, with samples of
    process and tensors.
    """
    lines: list[ProbeLine] = []

    result = measure(request(), lines.append)

    assert isinstance(lines[0], Planned)
    assert [run.num_layers for run in lines[0].runs] == [
        probe.num_layers for probe in result.probes
    ]
    assert all(run.why for run in lines[0].runs)
    assert lines[0].expected_s > 0
    told = [line for line in lines if isinstance(line, Progress)]
    assert [line.fraction for line in told] == sorted(line.fraction for line in told)
    assert (told[0].fraction, told[-1].fraction) == (0.0, 1.0)
    assert any(line.phase == "3 of 3 layers, 128 tokens: step 2 of 2" for line in told)
    assert {line.kind for line in lines if isinstance(line, Sample)} == {"process_rss", "allocated"}


def test_a_result_says_what_it_ran_on() -> None:
    """Versions, processor and threads are in the environment; the process and its time are those of
    the asked model.
    """
    result = measured()

    assert {
        "torch",
        "transformers",
        "peft",
        "cpu",
        "threads",
        "allocator",
    } <= result.environment.keys()
    assert result.peaks.process_rss_bytes is not None
    assert result.step_time_s is not None
    assert result.peaks.reserved_bytes is None
    assert result.peaks.allocated_bytes == max(by_name(result.instants).values())


def test_dropout_in_the_math_kernel_does_not_transfer() -> None:
    """CPU keeps a mask of the weights' dtype there, CUDA one of bytes: the result must not correct
    a GPU's.
    """
    result = measured(replace(TRAIN, attention=Attention.MATH), GPT2)

    assert not result.transferable
    assert any("dropout" in note for note in result.notes)


@pytest.mark.parametrize(
    ("asked", "kind", "words"),
    [
        (request(config=None), FailureKind.INVALID_REQUEST, "config.json"),
        (request(config={"model_type": "nonesuch"}), FailureKind.UNSUPPORTED, "nonesuch"),
        (request(layout=Layout(pipeline_parallel=2)), FailureKind.UNSUPPORTED, "pipeline"),
        (
            request(layout=Layout(data_parallel=2), rank=2),
            FailureKind.INVALID_REQUEST,
            "ranks 0 to 1",
        ),
        (request(replace(TRAIN, optimizer="adamw_8bit")), FailureKind.UNSUPPORTED, "adamw_8bit"),
        (request(replace(TRAIN, loss=Loss.CHUNKED)), FailureKind.UNSUPPORTED, "chunked"),
        (
            request(replace(TRAIN, activation_checkpointing=Checkpointing.SELECTIVE)),
            FailureKind.UNSUPPORTED,
            "selective",
        ),
        (request(replace(SERVE, engine=Engine.VLLM)), FailureKind.UNSUPPORTED, "vllm"),
        (
            request(replace(TRAIN, precision=POLICIES["bf16_mixed"], optimizer="adamw_fused")),
            FailureKind.UNSUPPORTED,
            "fp32 masters",
        ),
    ],
)
def test_refuses_what_it_cannot_run(asked: ProbeRequest, kind: FailureKind, words: str) -> None:
    """A refusal has a kind for the program and words for the person."""
    with pytest.raises(Refusal, match=words) as refused:
        measure(asked, lambda _line: None)

    assert refused.value.kind is kind
