"""Quantities that can be maximized, with range, step and effect."""

from dataclasses import replace
from enum import StrEnum
from math import lcm
from typing import Any

from service.estimator.backends.registry import get_backend
from service.estimator.values.batches import MAX_COUNT
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.workload import Engine, ServeWorkload, TrainWorkload, Workload
from service.planner.fit.evaluator import Config


class Maximized(StrEnum):
    """Quantities that a ceiling question maximizes."""

    MICRO_BATCH_SIZE = "micro_batch_size"
    GLOBAL_BATCH_SIZE = "global_batch_size"
    SEQUENCE_LENGTH = "sequence_length"
    NUM_SEQUENCES = "num_sequences"
    MAX_MODEL_LEN = "max_model_len"
    LORA_RANK = "lora_rank"
    NUM_IMAGES = "num_images"
    NUM_PARAMETERS = "num_parameters"


MAX_VALUES = {
    Maximized.MICRO_BATCH_SIZE: 2**16,
    Maximized.GLOBAL_BATCH_SIZE: 2**26,
    Maximized.SEQUENCE_LENGTH: 2**24,
    Maximized.NUM_SEQUENCES: 2**16,
    Maximized.MAX_MODEL_LEN: 2**24,
    Maximized.LORA_RANK: 2**14,
    Maximized.NUM_IMAGES: MAX_COUNT,
    Maximized.NUM_PARAMETERS: 2 * 10**12,
}
"""Largest values that a search tries; one that reaches them says so."""
TENTH_OF_A_BILLION = 10**8
"""Step and least value of model sizes."""
_TRAINED = frozenset({Maximized.MICRO_BATCH_SIZE, Maximized.GLOBAL_BATCH_SIZE})
_SERVED = frozenset({Maximized.NUM_SEQUENCES, Maximized.MAX_MODEL_LEN})


def check_maximized(workload: Workload, maximized: Maximized) -> None:
    """Raise InvalidInputError where a quantity means nothing for a workload."""
    serving = isinstance(workload, ServeWorkload)
    if maximized in (_TRAINED if serving else _SERVED):
        task = "train" if serving else "serve"
        message = f"{maximized.value} is a word of task {task!r}, and this workload is another"
        raise InvalidInputError(message, field="maximize")
    if maximized is Maximized.LORA_RANK and (
        isinstance(workload, ServeWorkload) or workload.lora is None
    ):
        message = 'lora_rank needs adapters: set task "train" and method "lora" or "qlora"'
        raise InvalidInputError(message, field="maximize")
    inputs = workload.inputs
    if maximized is Maximized.NUM_IMAGES and inputs is not None and not inputs.images:
        message = "num_images needs an image: say inputs with its width and height"
        raise InvalidInputError(message, field="maximize")
    if (
        maximized is Maximized.MAX_MODEL_LEN
        and isinstance(workload, ServeWorkload)
        and workload.engine is Engine.TRANSFORMERS
    ):
        message = (
            "max_model_len bounds nothing in engine 'transformers', whose cache has the tokens "
            "that are asked for"
        )
        raise InvalidInputError(message, field="maximize")


def get_max_value(maximized: Maximized, positions: int | None) -> tuple[int, str]:
    """Return the largest value to try and the reason for it.

    ``positions`` are the model's, where it has an end.

    vLLM refuses a longer ``max_model_len`` unless its environment allows that (vllm-project/vllm,
    pull request 19660).
    """
    max_value = MAX_VALUES[maximized]
    if maximized is Maximized.MAX_MODEL_LEN and positions is not None and positions < max_value:
        return positions, f"{positions:,} are all positions that the model has"
    return max_value, f"{max_value:,} is the largest value that is asked for"


def get_step(config: Config, maximized: Maximized) -> int:
    """Return the step between values.

    Sequences that are split stay divisible, and every rank gets as much of a batch.
    """
    workload, layout = config
    match maximized, workload:
        case Maximized.NUM_PARAMETERS, _:
            return TENTH_OF_A_BILLION
        case Maximized.GLOBAL_BATCH_SIZE, TrainWorkload():
            return layout.data_parallel * workload.gradient_accumulation_steps
        case Maximized.SEQUENCE_LENGTH, TrainWorkload():
            slices = 2 * layout.context_parallel if layout.context_parallel > 1 else 1
            return lcm(
                slices,
                layout.context_parallel * layout.tensor_parallel if layout.sequence_parallel else 1,
            )
        case _:
            return 1


def get_min_value(config: Config, maximized: Maximized) -> int:
    """Return the smallest value to try."""
    workload = config[0]
    if maximized is Maximized.NUM_PARAMETERS:
        return TENTH_OF_A_BILLION
    if maximized is Maximized.MAX_MODEL_LEN and isinstance(workload, ServeWorkload):
        return workload.prompt_tokens + workload.output_tokens
    return 1


def set_value(config: Config, maximized: Maximized, value: int) -> Workload:
    """Return the workload of a configuration at a value."""
    workload, layout = config
    changed_fields: dict[str, Any] = {}
    match maximized, workload:
        case Maximized.NUM_PARAMETERS, _:
            pass  # another model, and the same work
        case Maximized.SEQUENCE_LENGTH, ServeWorkload():
            changed_fields["prompt_tokens"] = value
        case Maximized.GLOBAL_BATCH_SIZE, TrainWorkload():
            changed_fields["micro_batch_size"] = value // (
                layout.data_parallel * workload.gradient_accumulation_steps
            )
        case Maximized.MAX_MODEL_LEN, ServeWorkload():
            changed_fields |= {"max_model_len": value, **_ask_longest(workload, value)}
        case Maximized.LORA_RANK, TrainWorkload(lora=lora) if lora is not None:
            changed_fields["lora"] = replace(lora, rank=value)
        case Maximized.NUM_IMAGES, _ if workload.inputs is not None:
            first, *remaining = workload.inputs.images
            images = (replace(first, count=value), *remaining)
            changed_fields["inputs"] = replace(workload.inputs, images=images)
        case _:
            changed_fields[maximized.value] = value
    return replace(workload, **changed_fields)


def _ask_longest(workload: ServeWorkload, length: int) -> dict[str, int]:
    """Return what asks for room for one request of a length.

    Empty where what is asked has that room, or where the engine asks for it by itself.
    """
    requested_tokens = workload.num_sequences * (workload.prompt_tokens + workload.output_tokens)
    if length <= requested_tokens or not get_backend(workload.engine).starts_with_any_room:
        return {}
    return {"num_sequences": 1, "prompt_tokens": length - workload.output_tokens}


def list_value_notes(workload: Workload, maximized: Maximized, value: int) -> tuple[str, ...]:
    """Return what a value asks in place of the request."""
    if (
        maximized is not Maximized.MAX_MODEL_LEN
        or not isinstance(workload, ServeWorkload)
        or not _ask_longest(workload, value)
    ):
        return ()
    tokens, engine = workload.prompt_tokens + workload.output_tokens, workload.engine.value
    note = (
        f"workload = one request of {value:,} tokens, in place of {workload.num_sequences:,} of "
        f"{tokens:,}: {engine} starts without room for its longest request, and refuses it when it "
        "comes"
    )
    return (note,)
