"""A backend of the tests, with its answer in the same module."""

from service.estimator.backends.pass_cache import PassCache
from service.estimator.memory.answer.assemble import assemble
from service.estimator.memory.answer.partial_estimate import PartialEstimate
from service.estimator.memory.question import ServeQuestion
from service.estimator.values.backend import Backend, Task
from service.estimator.values.engine_versions import Version
from service.estimator.values.result import Estimate, Instant

BACKEND = Backend(
    name="fake",
    answers={Task.SERVE: "tests.unit.estimator.backends.fake_backend"},
    default_port=4242,
    newest_release=Version(1, 0),
)


def answer(question: ServeQuestion, cache: PassCache) -> Estimate:  # noqa: ARG001 - nothing is recorded
    """Return the weights and nothing else."""
    weights = question.model.weight_bytes(question.workload.weight_dtype)
    return assemble(
        PartialEstimate(
            num_gpus=question.layout.num_gpus,
            linked_gpus=1,
            instants=(),
            peak=Instant("load", weights),
            steady_bytes=weights,
            components=tuple,
            kind="inference",
        ),
        question,
        question.workload.weight_dtype,
    )
