"""What the allocator reserves for a question's training, by the order of any step's requests."""

from collections.abc import Mapping

from service.catalog.gpus import find_gpus
from service.estimator.memory.allocator.kernel_buffers import find_kernel_buffers, select_kernels
from service.estimator.memory.allocator.replay import ReplayPeaks, replay
from service.estimator.memory.allocator.tensors import list_training_tensors
from service.estimator.memory.setup import resolve_setup
from service.estimator.memory.static import build_static_memory
from service.estimator.memory.training_pass import build_training_pass
from service.estimator.passes.recorder import log_training
from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events
from service.estimator.values.workload import Allocator, TrainWorkload
from tests.accuracy.search.questions import Question

_GPU = "A100-SXM4-80GB"
"""SDPA takes flash attention there, as it does in a trace."""


def log_step(question: Question) -> Events:
    """Return the requests of one step as the tape has them, on a GPU without workspaces."""
    model, workload = question.build(), question.workload
    assert isinstance(workload, TrainWorkload), "a replica has no step"
    kernels = find_kernel_buffers(find_gpus(_GPU)[0].to_device())
    config = build_training_pass(model, workload, question.make_layout())
    return log_training(model, select_kernels(config, kernels))


def replay_steps(question: Question, events: Events) -> Mapping[Allocator, ReplayPeaks]:
    """Return the peaks of a job whose steps make these requests, by allocator."""
    model, workload, layout = question.build(), question.workload, question.make_layout()
    assert isinstance(workload, TrainWorkload), "a replica has no step"
    static = build_static_memory(resolve_setup(model, workload, layout))
    tensors = list_training_tensors(
        model, workload, layout, static.trained, static.states, static.buckets
    )
    values = sizes.evaluate_monomials(*workload.rows)
    return {kind: replay(kind, tensors, [events], values) for kind in Allocator}
