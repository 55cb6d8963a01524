"""Optimizers that a probe makes, of torch, transformers and packages."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from importlib import import_module
from typing import Any, cast

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from transformers import PreTrainedModel
from transformers.optimization import Adafactor

from service.estimator.memory.optimizers.low_rank import LOW_RANK
from service.estimator.values.optimizers import OptimizerName as Name
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal

LEARNING_RATE = 1e-5
MOMENTUM = 0.9
PROJECTION_STEPS = 200
"""Steps between two projections of GaLore and APOLLO (transformers 5.23
``trainer_optimizer.py``).
"""
TRAINER_BLOCK = 256
"""Elements per scale in the Trainer's optimizers of torchao (``_get_torchao_optimizer``)."""
_PACKAGES = {
    "bitsandbytes.optim": "bitsandbytes",
    "bitsandbytes.optim.optimizer": "bitsandbytes",
    "torchao.optim": "torchao",
    "schedulefree": "schedulefree",
    "optimi": "torch-optimi",
    "galore_torch": "galore-torch",
    "apollo_torch": "apollo-torch",
}

Optimizers = list[torch.optim.Optimizer]


class Kind(Enum):
    """Part of a model that a parameter belongs to."""

    TABLE = auto()
    HEAD = auto()
    HIDDEN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """Tensors that an optimizer steps, with their kinds.

    ``by_trainer``: the optimizer is made as HF's Trainer makes it.
    """

    tensors: Sequence[torch.Tensor]
    kinds: Sequence[Kind]
    by_trainer: bool = True

    def select(self, accepts: Callable[[torch.Tensor, Kind], bool]) -> list[torch.Tensor]:
        """Return the tensors that are accepted."""
        pairs = zip(self.tensors, self.kinds, strict=True)
        return [tensor for tensor, kind in pairs if accepts(tensor, kind)]


def list_kinds(model: nn.Module, parameters: Iterable[nn.Parameter]) -> list[Kind]:
    """Return the kind of each parameter."""
    tables = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, nn.Embedding)
        for parameter in module.parameters(recurse=False)
    }
    heads = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, PreTrainedModel)
        and (head := module.get_output_embeddings()) is not None  # type: ignore[no-untyped-call]  # transformers leaves it untyped
        for parameter in head.parameters()
    }
    return [
        Kind.TABLE
        if id(parameter) in tables
        else Kind.HEAD
        if id(parameter) in heads
        else Kind.HIDDEN
        for parameter in parameters
    ]


def make_optimizers(name: str, stepped: Stepped) -> Optimizers:
    """Make the optimizers that step the tensors together.

    Raises Refusal where a package is missing, or where this device has other kernels than CUDA.
    """
    _check_device(name, stepped.tensors[0])
    return FACTORIES[Name(name)](stepped)


def _check_device(name: str, tensor: torch.Tensor) -> None:
    device, is_fake = tensor.device.type, isinstance(tensor, FakeTensor)
    if name in _CUDA_ALONE and device != "cuda":
        message = f"{name}: {_CUDA_ALONE[Name(name)]}: measure it on device cuda"
    elif name == Name.SCHEDULE_FREE_RADAM:
        message = (
            f"{name}: its first five steps have no temporaries, and a probe runs no more; "
            "schedule_free_adamw keeps the same bytes"
        )
    elif name in _TORCHAO and is_fake:
        message = f"{name}: torch compiles its step, which needs real tensors: measure it"
    elif name in _BITSANDBYTES and device != "cuda" and not is_fake:
        message = (
            f"{name}: bitsandbytes makes other temporaries on a CPU than on CUDA: trace it, or "
            "measure it on device cuda"
        )
    else:
        return
    raise Refusal(FailureKind.UNSUPPORTED, message)


def _import(module: str) -> Any:  # noqa: ANN401 - packages that need not be installed
    try:
        return import_module(module)
    except ImportError as error:
        package = _PACKAGES[module]
        message = (
            f"this worker does not have the package {package}, which the optimizer is in: pip "
            f"install {package}"
        )
        raise Refusal(FailureKind.UNSUPPORTED, message) from error


def _make_torch(stepped: Stepped, *, kind: Any, **options: object) -> Optimizers:  # noqa: ANN401 - optimizers have arguments of their own
    return [kind(list(stepped.tensors), lr=LEARNING_RATE, **options)]


def _make_adafactor(stepped: Stepped) -> Optimizers:
    """Make transformers' own.

    Weight decay, of which vectors have none, makes two groups.
    """
    matrices = stepped.select(lambda tensor, _: tensor.dim() > 1)
    vectors = stepped.select(lambda tensor, _: tensor.dim() <= 1)
    groups: list[Any] = [{"params": group} for group in (matrices, vectors) if group]
    return [Adafactor(groups, lr=LEARNING_RATE, scale_parameter=False, relative_step=False)]  # type: ignore[no-untyped-call]  # transformers leaves it untyped


def _is_hidden_matrix(tensor: torch.Tensor, kind: Kind) -> bool:
    return kind is Kind.HIDDEN and tensor.dim() == 2  # noqa: PLR2004 - a matrix has two dimensions


def _make_muon(stepped: Stepped) -> Optimizers:
    matrices = stepped.select(_is_hidden_matrix)
    plain = stepped.select(lambda tensor, kind: not _is_hidden_matrix(tensor, kind))
    made: Optimizers = [torch.optim.Muon(matrices, lr=LEARNING_RATE)] if matrices else []
    return [*made, *([torch.optim.AdamW(plain, lr=LEARNING_RATE, foreach=True)] if plain else [])]


def _make_low_rank(stepped: Stepped, *, module: str, kind: str, **options: object) -> Optimizers:
    matrices = stepped.select(_is_hidden_matrix)
    plain = stepped.select(lambda tensor, kind: not _is_hidden_matrix(tensor, kind))
    projected = {
        "params": matrices,
        "rank": LOW_RANK,
        "update_proj_gap": PROJECTION_STEPS,
        "proj_type": "std",
        **options,
    }
    return [getattr(_import(module), kind)([{"params": plain}, projected], lr=LEARNING_RATE)]


def _make_schedule_free(stepped: Stepped, *, kind: str) -> Optimizers:
    optimizer = getattr(_import("schedulefree"), kind)(list(stepped.tensors), lr=LEARNING_RATE)
    optimizer.train()
    return [optimizer]


def _make_stable(stepped: Stepped) -> Optimizers:
    return [_import("optimi").StableAdamW(list(stepped.tensors), lr=LEARNING_RATE)]


def _make_torchao(stepped: Stepped, *, kind: str) -> Optimizers:
    block = {"block_size": TRAINER_BLOCK} if stepped.by_trainer else {}
    optimizer = getattr(_import("torchao.optim"), kind)
    return [optimizer(list(stepped.tensors), lr=LEARNING_RATE, **block)]


def _make_bitsandbytes(
    stepped: Stepped, *, kind: str, bits: int = 32, paged: bool = False
) -> Optimizers:
    """Make an optimizer of bitsandbytes.

    The Trainer registers 32-bit states for embeddings beside 8-bit ones: here a second optimizer
    has them.
    """
    splits = stepped.by_trainer and bits == 8  # noqa: PLR2004 - bits
    tables = stepped.select(lambda _, kind: splits and kind is Kind.TABLE)
    unsplit = stepped.select(lambda _, kind: not splits or kind is not Kind.TABLE)
    optimizer = getattr(_import("bitsandbytes.optim"), kind)
    options = {"lr": LEARNING_RATE, **({"is_paged": True} if paged else {})}
    return [
        _make_with_maps(optimizer, tensors, {**options, "optim_bits": width})
        for tensors, width in ((tables, 32), (unsplit, bits))
        if tensors
    ]


def _make_with_maps(
    kind: Any,  # noqa: ANN401 - a class of a package that need not be installed
    tensors: list[torch.Tensor],
    options: Mapping[str, object],
) -> torch.optim.Optimizer:
    """Make an optimizer with maps from codes to values.

    They are computed from real numbers. Beside fake tensors they are as large, and have no values;
    an optimizer of one state moves the first alone to the device.
    """
    optimizer: Any
    if not isinstance(tensors[0], FakeTensor):
        optimizer = kind(tensors, **options)
        return cast("torch.optim.Optimizer", optimizer)
    with unset_fake_temporarily():
        optimizer = kind(tensors, **options)
    has_one = isinstance(optimizer, _import("bitsandbytes.optim.optimizer").Optimizer1State)
    maps = list(optimizer.name2qmap.items())[: 1 if has_one else None]
    optimizer.name2qmap = {name: torch.zeros(len(codes)) for name, codes in maps}
    return cast("torch.optim.Optimizer", optimizer)


_CUDA_ALONE: Mapping[Name, str] = {
    Name.STABLE_ADAMW: "its Triton kernels run on GPUs alone",
    **dict.fromkeys(
        (
            Name.PAGED_ADAMW,
            Name.PAGED_ADAMW_8BIT,
            Name.PAGED_LION,
            Name.PAGED_LION_8BIT,
            Name.PAGED_ADEMAMIX,
            Name.PAGED_ADEMAMIX_8BIT,
        ),
        "managed memory is CUDA's",
    ),
}
_BNB_OPTIMIZERS: Mapping[Name, tuple[str, int, bool]] = {
    Name.ADAMW_8BIT: ("AdamW", 8, False),
    Name.PAGED_ADAMW_8BIT: ("AdamW", 8, True),
    Name.ADAMW_BNB: ("AdamW", 32, False),
    Name.PAGED_ADAMW: ("AdamW", 32, True),
    Name.LION: ("Lion", 32, False),
    Name.LION_8BIT: ("Lion", 8, False),
    Name.PAGED_LION: ("Lion", 32, True),
    Name.PAGED_LION_8BIT: ("Lion", 8, True),
    Name.RMSPROP_BNB: ("RMSprop", 32, False),
    Name.RMSPROP_8BIT: ("RMSprop", 8, False),
    Name.ADEMAMIX: ("AdEMAMix", 32, False),
    Name.ADEMAMIX_8BIT: ("AdEMAMix", 8, False),
    Name.PAGED_ADEMAMIX: ("AdEMAMix", 32, True),
    Name.PAGED_ADEMAMIX_8BIT: ("AdEMAMix", 8, True),
}
_BITSANDBYTES = frozenset(_BNB_OPTIMIZERS)
_TORCHAO = frozenset({Name.ADAMW_8BIT_TORCHAO, Name.ADAMW_4BIT})
_OPTIM = torch.optim
FACTORIES: Mapping[Name, Callable[[Stepped], Optimizers]] = {
    Name.ADAMW: partial(_make_torch, kind=_OPTIM.AdamW, foreach=True),
    Name.ADAMW_FUSED: partial(_make_torch, kind=_OPTIM.AdamW, fused=True),
    Name.ADAMW_LOOP: partial(_make_torch, kind=_OPTIM.AdamW, foreach=False),
    Name.SGD: partial(_make_torch, kind=_OPTIM.SGD, foreach=True),
    Name.SGD_MOMENTUM: partial(_make_torch, kind=_OPTIM.SGD, momentum=MOMENTUM, foreach=True),
    Name.ADAGRAD: partial(_make_torch, kind=_OPTIM.Adagrad, foreach=True),
    Name.RMSPROP: partial(_make_torch, kind=_OPTIM.RMSprop, foreach=True),
    Name.ADAFACTOR_TORCH: partial(_make_torch, kind=_OPTIM.Adafactor),
    Name.ADAFACTOR: _make_adafactor,
    Name.MUON: _make_muon,
    Name.GALORE_ADAMW: partial(
        _make_low_rank, module="galore_torch", kind="GaLoreAdamW", scale=0.25
    ),
    Name.APOLLO: partial(
        _make_low_rank,
        module="apollo_torch",
        kind="APOLLOAdamW",
        scale=1.0,
        proj="random",
        scale_type="channel",
    ),
    Name.SCHEDULE_FREE_ADAMW: partial(_make_schedule_free, kind="AdamWScheduleFree"),
    Name.SCHEDULE_FREE_RADAM: partial(_make_schedule_free, kind="RAdamScheduleFree"),
    Name.SCHEDULE_FREE_SGD: partial(_make_schedule_free, kind="SGDScheduleFree"),
    Name.STABLE_ADAMW: _make_stable,
    Name.ADAMW_8BIT_TORCHAO: partial(_make_torchao, kind="AdamW8bit"),
    Name.ADAMW_4BIT: partial(_make_torchao, kind="AdamW4bit"),
    **{
        name: partial(_make_bitsandbytes, kind=kind, bits=bits, paged=paged)
        for name, (kind, bits, paged) in _BNB_OPTIMIZERS.items()
    },
}
