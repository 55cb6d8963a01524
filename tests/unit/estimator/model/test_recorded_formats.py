"""Recorded passes on weights of another format than they were recorded with."""

from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import TrainWorkload

TRACED = 410_671_064
"""Live bytes that a traced step of two layers of ERNIE has at its highest before the optimizer.

(``python -m tests.accuracy.search`` asks the type's own class on fake tensors: 2 x 64 tokens in
bf16 under autocast, all logits kept.)
"""


def test_autocast_gives_weights_in_16_bits_gradients_of_theirs() -> None:
    """It was recorded on weights in fp32, whose table of tokens has a gradient twice as large."""
    model = load_architecture(resolve_model("ernie-default")).with_layers(2)
    workload = TrainWorkload(
        sequence_length=64,
        micro_batch_size=2,
        precision=POLICIES["bf16_autocast"],
        keeps_logits=True,
        fp32_outputs=False,
    )
    host = Device(name="host", capacity_bytes=2**40, usable_bytes=2**40)

    answer = estimate(model, workload, layout=Layout(), device=host)

    backward = next(phase for phase in answer.phases if phase.name == "backward_pass")
    assert abs(backward.allocated_bytes - TRACED) <= 1024
