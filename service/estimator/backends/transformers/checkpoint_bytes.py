"""Bytes of a training job's checkpoint on disk."""

from service.estimator.memory.setup import TrainSetup
from service.estimator.memory.states import count_saved_state_bytes
from service.estimator.values.result import CheckpointBytes


def count_checkpoint_bytes(setup: TrainSetup) -> CheckpointBytes:
    """Return the bytes of a checkpoint of the whole job.

    It has the model's weights, or the adapters, whether they are read or not, the optimizer's
    states, and the master copies of what the optimizer gets.
    """
    trained, workload = setup.trained, setup.workload
    is_full = workload.lora is None
    master_dtype = workload.precision.master_dtype if is_full else None
    master = master_dtype.bytes_per_element if master_dtype is not None else 0
    # All that is not trained of a model is frozen, idle weights too.
    untrained = trained.frozen if is_full else trained.idle
    return CheckpointBytes(
        weights=(trained.trained + untrained) * trained.trained_dtype.bytes_per_element
        + trained.saved_head.num_bytes,
        optimizer=count_saved_state_bytes(trained, setup.optimizer)
        + (trained.trained + trained.idle) * master,
        save_total_limit=workload.save_total_limit,
    )
