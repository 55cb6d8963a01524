"""Degrees, data-parallel ranks and micro-batches of a launch."""

from dataclasses import dataclass

from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.trainers.processes import Processes
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings

_CHOICES = (1, 2, 4, 8, 16, 32, 64, 128)
_DEGREES = {
    "tensor": "tensor_model_parallel_size",
    "pipeline": "pipeline_model_parallel_size",
    "context": "context_parallel_size",
}
"""Megatron's names for the degrees of one copy of the model."""
_WHY = "how many GPUs it is started on is not said"


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrees:
    """GPUs of one copy of the model, and ranks that experts need.

    ``stage_ranks`` are the tensor and context ranks of a stage of the pipeline.


    ``settings`` are what says the degrees.
    """

    model: int = 1
    experts: int = 1
    stage_ranks: int = 1
    settings: tuple[Setting, ...] = ()


def put_ranks(
    degrees: Degrees, processes: Processes, batch: int | None, draft: Draft, handed_in: HandedIn
) -> int:
    """Set the data-parallel ranks, and return them.

    They are the processes over the GPUs of one copy of the model. Where nobody says how many there
    are, they are asked, and are meanwhile the fewest that hold the experts. ``batch`` is how many
    micro-batches there are at least of all ranks, None where nobody says.

    Raises LaunchFormatError where the processes are no multiple of the model's GPUs.
    """
    if processes.count is not None:
        if processes.count % degrees.model:
            where = degrees.settings[0].where if degrees.settings else None
            message = (
                f"{processes.count} processes are no multiple of the {degrees.model} GPUs of one "
                "copy of the model (tensor x pipeline x context)"
            )
            raise LaunchFormatError(message, where=where)
        ranks = processes.count // degrees.model
        draft.put("layout.data_parallel", ranks, *processes.settings)
        if processes.per_node is not None:
            draft.put("layout.gpus_per_node", processes.per_node)
        return ranks
    for setting in processes.settings:
        draft.note(setting, "processes, whose number only a run tells")
    stated = handed_in.launch.layout.get("data_parallel")
    if stated is not None:
        draft.put("layout.data_parallel", stated)
        return stated
    legal = [
        count
        for count in _CHOICES
        if count * degrees.stage_ranks % degrees.experts == 0
        and (batch is None or batch % count == 0)
    ]
    fewest = legal[0] if legal else 1
    draft.ask("layout.data_parallel", _WHY, tuple(legal[:4]) or (1,))
    return fewest


def settle_degrees(arguments: Settings, draft: Draft, handed_in: HandedIn) -> Settings:
    """Return arguments with the request's degrees; ask for others.

    A recipe keeps its own to itself. Processes are shared among the degrees: until all are said,
    nobody knows a rank's batch.
    """
    is_open = False
    for kind, name in _DEGREES.items():
        field = f"layout.{kind}_parallel"
        degree = handed_in.launch.layout.get(f"{kind}_parallel")
        if degree is not None:
            arguments.add(name, Setting(key=field, value=degree, where="the request"))
        elif name not in arguments:
            is_open = True
            draft.ask(field, "the recipe has its own, which is not read")
    named = arguments.take_all()
    total = named.pop("global_batch_size", None) if is_open else None
    if total is not None:
        draft.note(total, "the batch of all ranks, which follow from the degrees")
    return Settings(named)


def put_batches(
    micro: int, total: Setting | None, ranks: int, draft: Draft, *, field: str = "global batch"
) -> None:
    """Set the micro-batches of a step by the batch of all ranks.

    Raises LaunchFormatError where the batch is no multiple of what all ranks run at once.
    """
    if total is None:
        return
    number, at_once = total.as_int(minimum=1), micro * ranks
    if number % at_once:
        raise total.refuse(
            f"a multiple of {at_once}: the {field} is micro batch {micro} x {ranks} data-parallel "
            "ranks x micro-batches"
        )
    draft.put("workload.gradient_accumulation_steps", number // at_once, total)
