"""Steps towards less memory beside a policy's rollout."""

from collections.abc import Iterator
from dataclasses import replace

from service.estimator.values.generation import MAX_SLEEP_LEVEL, Rollout, RolloutEngine
from service.estimator.values.workload import TrainWorkload
from service.planner.fit.evaluator import Config

_FRACTIONS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)


def let_engine_sleep(config: Config) -> Iterator[Config]:
    """Let the engine sleep during the update."""
    match config:
        case (
            TrainWorkload(
                rollout=Rollout(
                    engine=RolloutEngine.VLLM | RolloutEngine.SGLANG, sleep_level=0
                ) as rollout
            ) as workload,
            layout,
        ):
            asleep = replace(rollout, sleep_level=MAX_SLEEP_LEVEL)
            yield replace(workload, rollout=asleep), layout


def shrink_engine(config: Config) -> Iterator[Config]:
    """Give the engine and its pool less of the GPU."""
    match config:
        case (
            TrainWorkload(rollout=Rollout(gpu_memory_fraction=float(share)) as rollout) as workload,
            layout,
        ):
            for fraction in _FRACTIONS:
                if fraction < share:
                    smaller = replace(rollout, gpu_memory_fraction=fraction)
                    yield replace(workload, rollout=smaller), layout


def shorten_engine(config: Config) -> Iterator[Config]:
    """Let the engine accept no longer sequences than are trained.

    Its pool must have room for one of the longest, which is the model's own where nobody says so.
    """
    match config:
        case (
            TrainWorkload(
                rollout=Rollout(engine=RolloutEngine.VLLM | RolloutEngine.SGLANG) as rollout
            ) as workload,
            layout,
        ):
            length = workload.sequence_length
            if rollout.max_model_len is None or rollout.max_model_len > length:
                yield replace(workload, rollout=replace(rollout, max_model_len=length)), layout


def move_states(config: Config) -> Iterator[Config]:
    """Keep the trainer's states on the host while the engine generates."""
    match config:
        case (TrainWorkload(rollout=Rollout(own_process=True) as rollout) as workload, layout):
            moved = replace(rollout, offload_parameters=True, offload_optimizer=True)
            if rollout.sleep_level and moved != rollout:
                yield replace(workload, rollout=moved), layout
