"""Bytes of packed weights that a product of many rows has unpacked first, and their time."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.memory.training_pass import build_training_pass
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.speed.host import UNPACKING_VIEWS, estimate_serving_host_s
from service.estimator.speed.rates import get_rates
from service.estimator.speed.throughput import WorkCache, make_step_timer
from service.estimator.speed.work import (
    count_forward_work,
    count_training_work,
    count_unpacked_bytes,
)
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Section
from service.estimator.values.dtypes import DType
from service.estimator.values.generation import Client
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Throughput
from service.estimator.values.workload import (
    Attention,
    Engine,
    Lora,
    Method,
    Quantization,
    TrainWorkload,
)
from service.planner.fit.evaluator import make_evaluator
from tests.builders import a_config, a_serving

_NF4, _GPTQ = Scheme(packing=Packing.BLOCKS_4BIT), Scheme(packing=Packing.GPTQ)
_DENSE, _MIXTURE = (
    count_forward_work(
        load_architecture(resolve_model(name)), dtype=DType.BF16, attention=Attention.SDPA
    )
    for name in ("llama-3.2-1b", "olmoe-1b-7b")
)


@pytest.mark.parametrize(
    ("scheme", "packed_rows"),
    [
        (_NF4, 4),
        (_GPTQ, 7),
        (Scheme(packing=Packing.GPTQ, bits=8), 4096),
        (Scheme(packing=Packing.AWQ), 4096),
        (None, 4096),
    ],
)
def test_few_rows_are_multiplied_with_packed_weights(
    scheme: Scheme | None, packed_rows: int
) -> None:
    """One more than a kernel for few rows takes has all of the layers' weights in 16 bits."""
    packed, unpacked = (
        count_unpacked_bytes(_DENSE, scheme, rows, DType.BF16)
        for rows in (packed_rows, packed_rows + 1)
    )

    assert packed == 0
    assert unpacked == (2 * _DENSE.block_weights if packed_rows < 4096 else 0)


def test_experts_are_not_packed() -> None:
    """Bitsandbytes packs linear layers, and stacks of experts are none: attention has four."""
    unpacked = count_unpacked_bytes(_MIXTURE, _NF4, 64, DType.BF16)

    assert unpacked == 2 * 16 * (4 * 2048**2 + 64 * 2048)


_H100 = resolve_gpu("H100-SXM5-80GB").to_device()


def _time(
    config: Mapping[str, object],
    quantization: Quantization = Quantization.NONE,
    engine: Engine = Engine.TRANSFORMERS,
) -> Throughput:
    workload = a_serving(
        num_sequences=8, client=Client.GENERATE, quantization=quantization, engine=engine
    )
    evaluator = make_evaluator(architecture_from_config(config), _H100)
    found = evaluator.get_throughput(workload, Layout(), evaluator.answer(workload, Layout()))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("quantization", "described"),
    [
        (
            Quantization.NF4,
            {
                "quant_method": "bitsandbytes",
                "load_in_4bit": True,
                "bnb_4bit_quant_type": "nf4",
                "bnb_4bit_use_double_quant": True,
            },
        ),
        (Quantization.GPTQ_INT4, {"quant_method": "gptq", "bits": 4, "group_size": 128}),
        (Quantization.AWQ_INT4, {"quant_method": "awq", "bits": 4, "group_size": 128}),
        (Quantization.FP8, {"quant_method": "fp8", "weight_block_size": None}),
    ],
)
def test_weights_take_as_long_whoever_says_that_they_are_packed(
    quantization: Quantization, described: Mapping[str, object]
) -> None:
    """A request and a config that name one format have the same kernels."""
    config = a_config(hidden_size=512, intermediate_size=1024, num_attention_heads=8)

    requested = _time(config, quantization)
    configured = _time({**config, "quantization_config": described})

    assert requested == configured
    assert requested != _time(config)


def test_llama_cpp_multiplies_blocks_as_they_are() -> None:
    """Its mixtures are the format of no scheme: bytes of a file are all that differs."""
    config = a_config(hidden_size=512, intermediate_size=1024, num_attention_heads=8)

    wide, narrow = (
        _time(config, quantization, Engine.LLAMA_CPP)
        for quantization in (Quantization.Q8_0, Quantization.Q4_0)
    )

    assert narrow.gpu_time_s < wide.gpu_time_s
    assert narrow.prefill_time_s == wide.prefill_time_s


@pytest.mark.parametrize(("rows", "kernels"), [(4, 0), (5, 3)])
def test_a_host_launches_no_unpacking_for_few_rows(rows: int, kernels: int) -> None:
    """Up to four rows bitsandbytes multiplies packed weights in one kernel."""
    model, rates = load_architecture(resolve_model("llama-3.2-1b")), get_rates("H100")
    workload = a_serving(num_sequences=rows, engine=Engine.TRANSFORMERS)

    (_, packed), (_, plain) = (
        estimate_serving_host_s(model, workload, scheme, _DENSE, rates) for scheme in (_NF4, None)
    )

    calls = UNPACKING_VIEWS * rates.view_s + kernels * rates.launch_s
    assert packed - plain == pytest.approx(rates.ungraphed * _DENSE.num_products * calls)


def test_a_quantised_step_counts_what_unpacks_its_weights() -> None:
    """The pass that is timed has the casts, copies and kernels of the one whose bytes are told."""
    model = load_architecture(resolve_model("mistral-7b-v0.1"))
    workload = TrainWorkload(
        sequence_length=1024,
        micro_batch_size=2,
        precision=POLICIES["bf16_autocast"],
        method=Method.QLORA,
        lora=Lora(rank=16),
    )

    timed = make_step_timer(model, workload, _H100, WorkCache()).work
    told = count_training_work(model, build_training_pass(model, workload, Layout()))

    assert timed.sections[Section.FORWARD] == told.sections[Section.FORWARD]
    assert timed.sections[Section.BACKWARD] == told.sections[Section.BACKWARD]


def test_unpacked_weights_are_written_and_read_in_both_passes() -> None:
    """Beside what the same adapters move on 16 bits, and a weight is no third product."""
    model = load_architecture(resolve_model("mistral-7b-v0.1"))
    adapted = TrainWorkload(
        sequence_length=1,
        micro_batch_size=1,
        precision=POLICIES["bf16"],
        method=Method.LORA,
        lora=Lora(rank=1),
    )
    plain, packed = (
        make_step_timer(model, workload, _H100, WorkCache()).work
        for workload in (adapted, replace(adapted, method=Method.QLORA))
    )
    values = sizes.evaluate_monomials(1, 1)

    for section in (Section.FORWARD, Section.BACKWARD):
        before, after = plain.sections[section], packed.sections[section]
        moved = sizes.evaluate(after.moved, values) - sizes.evaluate(before.moved, values)
        assert after.products == before.products
        assert moved / packed.block_weights == pytest.approx(4, rel=0.1)
