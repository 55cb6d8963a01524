"""Optimizer steps of each precision policy.

They are the plain training loop that a user of PyTorch would write.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from service.estimator.values.precision import Precision
from worker.probes.models.optimizer_factories import (
    LEARNING_RATE,
    MOMENTUM,
    Kind,
    Stepped,
    make_optimizers,
)

BETAS = (0.9, 0.999)
EPSILON = 1e-8
WEIGHT_DECAY = 0.01
MAX_GRAD_NORM = 1.0

Step = Callable[[], None]
Updates = list[torch.optim.Optimizer]
MakeUpdates = Callable[[Sequence[torch.Tensor]], Updates]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepper:
    """The optimizer's part of a training loop.

    ``step`` clips and updates; ``zero_grad`` frees what the next step makes anew; ``states`` holds
    states alive.
    """

    step: Step
    zero_grad: Step
    states: tuple[object, ...] = field(default=(), repr=False)


def make_stepper(
    parameters: Sequence[nn.Parameter],
    *,
    kinds: Sequence[Kind],
    precision: Precision,
    optimizer: str,
    clip: bool,
    by_trainer: bool = True,
) -> Stepper:
    """Make the update of ``parameters``.

    ``kinds`` are those of the parameters; ``by_trainer``: the optimizer is made as HF's Trainer
    makes it. Parameters in fp32 (adapters) are their own masters.
    """

    def make_updates(tensors: Sequence[torch.Tensor]) -> Updates:
        stepped = Stepped(tensors=tensors, kinds=kinds, by_trainer=by_trainer)
        return [
            update
            for group in _group_by_sharding(stepped)
            for update in make_optimizers(optimizer, group)
        ]

    full_precision = all(parameter.dtype is torch.float32 for parameter in parameters)
    if precision.master_dtype is None or full_precision:
        return _make_plain(parameters, make_updates, clip=clip)
    if precision.main_grad_dtype is None:
        return _make_from_param_grads(parameters, optimizer=optimizer, clip=clip)
    if precision.main_grad_persistent:
        return _make_with_main_grads(parameters, precision, make_updates, clip=clip)
    return _make_with_fresh_grads(parameters, make_updates, clip=clip)


def _group_by_sharding(stepped: Stepped) -> list[Stepped]:
    """Group tensors that ranks split apart from those they replicate.

    Ranks are tensor-parallel: no operator takes lists of both. (transformers 5.23 does the same in
    ``trainer.py``, ``create_optimizer`` and ``_mixed_mesh_grad_norm``.)
    """
    pairs = list(zip(stepped.tensors, stepped.kinds, strict=True))
    groups = (
        [pair for pair in pairs if isinstance(pair[0], DTensor) is is_split]
        for is_split in (True, False)
    )
    return [
        replace(stepped, tensors=[pair[0] for pair in group], kinds=[pair[1] for pair in group])
        for group in groups
        if group
    ]


def _make_plain(
    parameters: Sequence[nn.Parameter], make_updates: MakeUpdates, *, clip: bool
) -> Stepper:
    updates = make_updates(parameters)

    def step() -> None:
        if clip:
            _clip(parameters)
        for update in updates:
            update.step()

    return Stepper(step=step, zero_grad=lambda: _clear_grads(parameters), states=tuple(updates))


def _clip(parameters: Sequence[nn.Parameter]) -> None:
    split = [parameter for parameter in parameters if isinstance(parameter, DTensor)]
    replicated = [parameter for parameter in parameters if not isinstance(parameter, DTensor)]
    for group in (split, replicated):
        if group:
            nn.utils.clip_grad_norm_(group, MAX_GRAD_NORM, foreach=True)


def _to_local(tensor: torch.Tensor) -> torch.Tensor:
    """Return this rank's part of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _make_masters(parameters: Sequence[nn.Parameter]) -> list[torch.Tensor]:
    return [_to_local(parameter.detach()).float() for parameter in parameters]


def _clear_grads(parameters: Sequence[torch.Tensor]) -> None:
    for parameter in parameters:
        parameter.grad = None


def _list_local_grads(parameters: Sequence[nn.Parameter]) -> list[torch.Tensor]:
    return [_to_local(parameter.grad) for parameter in parameters if parameter.grad is not None]


@torch.no_grad()
def _copy_masters(parameters: Sequence[nn.Parameter], masters: list[torch.Tensor]) -> None:
    torch._foreach_copy_([_to_local(parameter) for parameter in parameters], masters)


def _make_with_fresh_grads(
    parameters: Sequence[nn.Parameter], make_updates: MakeUpdates, *, clip: bool
) -> Stepper:
    """Make fp32 gradients just before the step and free them after.

    They are freed with the others.
    """
    masters = _make_masters(parameters)
    updates = make_updates(masters)

    def step() -> None:
        for master, parameter in zip(masters, parameters, strict=True):
            master.grad = None if parameter.grad is None else _to_local(parameter.grad).float()
        if clip:
            nn.utils.clip_grad_norm_(masters, MAX_GRAD_NORM, foreach=True)
        for update in updates:
            update.step()
        _copy_masters(parameters, masters)

    def zero_grad() -> None:
        _clear_grads(masters)
        _clear_grads(parameters)

    return Stepper(step=step, zero_grad=zero_grad, states=(*updates, masters))


def _make_with_main_grads(
    parameters: Sequence[nn.Parameter],
    precision: Precision,
    make_updates: MakeUpdates,
    *,
    clip: bool,
) -> Stepper:
    """Add gradients into persistent fp32 buffers.

    The buffers live as long as the job. Megatron frees its 16-bit gradients at once, DeepSpeed does
    not.
    """
    masters = _make_masters(parameters)
    for master in masters:
        master.grad = torch.zeros_like(master)
    updates = make_updates(masters)
    frees_at_once = precision.grad_dtype is not precision.param_dtype
    for parameter, master in zip(parameters, masters, strict=True):
        parameter.register_post_accumulate_grad_hook(_make_add_hook(master, frees=frees_at_once))  # type: ignore[no-untyped-call]  # torch leaves it untyped

    def step() -> None:
        if clip:
            nn.utils.clip_grad_norm_(masters, MAX_GRAD_NORM, foreach=True)
        for update in updates:
            update.step()
        _copy_masters(parameters, masters)

    def zero_grad() -> None:
        for update in updates:
            update.zero_grad(set_to_none=False)
        _clear_grads(parameters)

    return Stepper(step=step, zero_grad=zero_grad, states=(*updates, masters))


def _make_add_hook(master: torch.Tensor, *, frees: bool) -> Callable[[torch.Tensor], None]:
    def add(parameter: torch.Tensor) -> None:
        assert master.grad is not None  # noqa: S101 - made before the first backward
        assert parameter.grad is not None  # noqa: S101 - the hook runs after it was accumulated
        master.grad.add_(_to_local(parameter.grad))
        if frees:
            parameter.grad = None

    return add


def _make_from_param_grads(
    parameters: Sequence[nn.Parameter], *, optimizer: str, clip: bool
) -> Stepper:
    """Update fp32 masters straight from 16-bit gradients.

    No fp32 gradient ever exists. A parameter without a gradient (an image tower in a batch of text
    alone) has a master and no moments, as in any optimizer of torch.
    """
    masters = _make_masters(parameters)
    moments: list[list[torch.Tensor]] = []
    kernel = MIXED_KERNELS[optimizer]

    @torch.no_grad()
    def step() -> None:
        if clip:
            _clip(parameters)
        updated = [
            master
            for master, parameter in zip(masters, parameters, strict=True)
            if parameter.grad is not None
        ]
        if not moments:
            moments.extend(
                [torch.zeros_like(master) for master in updated]
                for _ in range(_NUM_STATES.get(optimizer, 0))
            )
        kernel(updated, _list_local_grads(parameters), tuple(moments))
        _copy_masters(parameters, masters)

    return Stepper(step=step, zero_grad=lambda: _clear_grads(parameters), states=(masters, moments))


Tensors = list[torch.Tensor]


def _step_adamw(masters: Tensors, grads: Tensors, states: tuple[Tensors, ...]) -> None:
    """Do one AdamW step over lists (arXiv:1711.05101).

    As torch.optim does with foreach: one temporary, of all parameters.
    """
    first, second = states
    torch._foreach_mul_(masters, 1 - LEARNING_RATE * WEIGHT_DECAY)
    torch._foreach_mul_(first, BETAS[0])
    torch._foreach_add_(first, grads, alpha=1 - BETAS[0])
    torch._foreach_mul_(second, BETAS[1])
    torch._foreach_addcmul_(second, grads, grads, 1 - BETAS[1])
    root = torch._foreach_sqrt(second)  # noqa: SLF001 - a foreach operator
    torch._foreach_add_(root, EPSILON)
    torch._foreach_addcdiv_(masters, first, root, -LEARNING_RATE)


def _step_adamw_loop(masters: Tensors, grads: Tensors, states: tuple[Tensors, ...]) -> None:
    """Do one AdamW step tensor by tensor, as torch.optim's loop.

    It takes two temporaries of the largest tensor.
    """
    for master, grad, first, second in zip(masters, grads, *states, strict=True):
        master.mul_(1 - LEARNING_RATE * WEIGHT_DECAY)
        first.mul_(BETAS[0]).add_(grad, alpha=1 - BETAS[0])
        second.mul_(BETAS[1]).addcmul_(grad, grad, value=1 - BETAS[1])
        root = (second.sqrt() / 1.0).add_(EPSILON)
        master.addcdiv_(first, root, value=-LEARNING_RATE)


def _step_sgd(masters: Tensors, grads: Tensors, states: tuple[Tensors, ...]) -> None:
    """Do one step of stochastic gradient descent over lists.

    It has momentum where there is a state for it.
    """
    directions = grads
    for momenta in states:
        torch._foreach_mul_(momenta, MOMENTUM)
        torch._foreach_add_(momenta, grads)
        directions = momenta
    torch._foreach_add_(masters, directions, alpha=-LEARNING_RATE)


_NUM_STATES = {"adamw": 2, "adamw_loop": 2, "sgd_momentum": 1}
MIXED_KERNELS: dict[str, Callable[[Tensors, Tensors, tuple[Tensors, ...]], None]] = {
    "adamw": _step_adamw,
    "adamw_loop": _step_adamw_loop,
    "sgd": _step_sgd,
    "sgd_momentum": _step_sgd,
}
