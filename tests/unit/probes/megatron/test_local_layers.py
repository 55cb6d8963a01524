"""Megatron Core's local layers, held against traces of the tensors that they make."""

from dataclasses import replace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from service.estimator.backends.megatron.chunks import record_chunk
from service.estimator.backends.megatron.shape import build_rank_shape, resolve_switches
from service.estimator.backends.megatron.stages import StageLayers
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Section
from service.estimator.values.megatron import MegatronOptions, TransformerImpl
from tests.unit.estimator.backends.megatron.builders import (
    a_gpt3,
    a_megatron_layout,
    a_megatron_step,
)
from tests.unit.probes.megatron.megatron_functions import (
    HALF,
    Sent,
    Shape,
    apply,
    run_layer,
)
from worker.probes.run.recorder import mark
from worker.probes.trace.ledger import compute_stretches
from worker.probes.trace.recorder import record_storages

PLAIN = Shape(
    hidden=512, inner=2048, heads=8, kv_heads=8, head_dim=64, layers=3, batch=2, length=256
)


def trace(shape: Shape) -> tuple[int, int, int]:
    """Return what a middle stage keeps between both passes, and the most of each."""
    with FakeTensorMode(), record_storages() as recorder:
        rows = shape.batch * shape.heads
        buffer = torch.empty(rows, shape.length, shape.length, dtype=HALF)
        mask = torch.empty(shape.length, shape.length, dtype=torch.bool)
        mark("forward")
        hidden = torch.empty(shape.length, shape.batch, shape.hidden, dtype=HALF).requires_grad_()
        for _ in range(shape.layers):
            hidden = run_layer(hidden, shape, buffer, mask)
        sent = apply(Sent, hidden)
        del hidden
        mark("backward")
        sent.backward(torch.empty(0))
        mark("end")
    stretches = {
        one.name: one for one in compute_stretches(recorder.ledger, recorder.ledger.live())
    }
    start = stretches["forward"].start
    highest = [stretches[name].live_peak - start for name in ("forward", "backward")]
    return stretches["backward"].start - start, highest[0], highest[1]


def predict(shape: Shape) -> tuple[int, int, int]:
    """Return the same of a recording."""
    model = a_gpt3(
        hidden_size=shape.hidden,
        intermediate_size=shape.inner,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        rotary=shape.rotates,
        attention_dropout=shape.dropout,
        residual_dropout=shape.dropout,
    )
    options = MegatronOptions(
        transformer_impl=TransformerImpl.LOCAL,
        masked_softmax_fusion=shape.fused_softmax,
        attention_softmax_in_fp32=True,
        gradient_accumulation_fusion=shape.fused_gradients,
    )
    workload = a_megatron_step(
        sequence_length=shape.length, micro_batch_size=shape.batch, megatron=options
    )
    rank = build_rank_shape(model, a_megatron_layout())
    switches = resolve_switches(workload, heads=rank.heads, fused_attention=True)
    layers = StageLayers(dense=shape.layers, sparse=0, first=False, last=False)
    record = record_chunk(rank, switches, layers)
    values = sizes.evaluate_monomials(shape.batch, shape.length)
    highest = [
        max(sizes.evaluate(point.bytes, values) for point in record.peak_candidates[section])
        for section in (Section.FORWARD, Section.BACKWARD)
    ]
    return sizes.evaluate(record.retained, values), highest[0], highest[1]


@pytest.mark.parametrize(
    "shape",
    [
        PLAIN,
        replace(PLAIN, dropout=0.0),
        replace(PLAIN, fused_softmax=False),
        replace(PLAIN, fused_softmax=False, dropout=0.0),
        replace(PLAIN, kv_heads=2),
        replace(PLAIN, rotates=True),
        replace(PLAIN, fused_gradients=False, length=64, inner=8192),
    ],
)
def test_local_layers_keep_what_their_functions_do(shape: Shape) -> None:
    """Norms, products, scores, softmax, dropout, activation and residual are counted."""
    assert predict(shape) == trace(shape)
