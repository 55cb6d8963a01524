"""What one layer keeps for backward, for tests of families."""

from service.estimator.memory.training_pass import build_training_pass
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.passes.recorder import record_training
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.sizes import Size
from service.estimator.values.layout import Layout
from service.estimator.values.workload import TrainWorkload

PER_TOKEN, PER_MASK, PER_SCORE = 3, 4, 5
"""Places of the monomials b*s, s*s and b*s*s."""


def added_by_a_layer(model: Architecture, workload: TrainWorkload) -> Size:
    """Return the activations that the last layer adds to the live bytes at the end of forward,
    where the loss is made.
    """

    def live(depth: int) -> Size:
        highs = record_training(
            model.with_layers(depth), build_training_pass(model, workload, Layout())
        )
        highest = max(highs[Section.LOSS_FORWARD], key=lambda point: point.bytes[PER_TOKEN])
        return dict(highest.live)[Category.ACTIVATIONS]

    depth = model.num_hidden_layers
    return sizes.subtract(live(depth), live(depth - 1))


def a_family(**config: object) -> Architecture:
    """Return the architecture of a config.json."""
    return architecture_from_config(config)
