"""Table of optimizers as data.

Each has its states per tensor, the temporaries of its step, and the source of both.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from service.estimator.memory.optimizers import compressed, low_rank, rules, steps
from service.estimator.memory.optimizers.compressed import Compression
from service.estimator.memory.optimizers.optimizer import Optimizer
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.optimizers import OptimizerName as Name
from service.estimator.values.workload import Framework, TrainWorkload

_TORCH = "torch.optim 2.13, counted on traces"
_BITSANDBYTES = "bitsandbytes 0.50 optim/optimizer.py: blocks of 256, fp32 below 4096 elements"
_TORCHAO = (
    "torchao 0.18 optim/adam.py and optim/subclass_*.py; its compiled step is one fused kernel per "
    "tensor"
)
_TRAINER = "transformers 5.23 trainer.py create_optimizer, trainer_optimizer.py"


def _make_plain(
    name: Name,
    num_states: int,
    *,
    lists: int = 0,
    formula: str = "in place",
    counts: bool = False,
    source: str = _TORCH,
) -> Optimizer:
    return Optimizer(
        name=name,
        num_states=num_states,
        states=partial(rules.list_elementwise, num_states=num_states),
        per_element_temporaries=lists,
        step_formula=formula,
        step_counts_on_device=counts,
        source=source,
    )


def _make_bitsandbytes(name: Name, *states: int, bits: int, paged: bool = False) -> Optimizer:
    """Return an optimizer of bitsandbytes.

    ``states`` has one number per state: how often it holds the tensor. The Trainer registers
    32-bit states for embeddings beside 8-bit ones.
    """
    rule = partial(rules.list_bitsandbytes, states=states, bits=bits, paged=paged)
    is_packed = bits == 8  # noqa: PLR2004 - bits
    return Optimizer(
        name=name,
        states=rule,
        shared_bytes=len(states) * rules.QMAP_BYTES if is_packed else 0,
        trainer_states=partial(rule, fp32_tables=True) if is_packed else None,
        source=_BITSANDBYTES,
    )


def _make_torchao(name: Name, *, bits: int, block: int, trainer_block: int) -> Optimizer:
    rule = partial(rules.list_packed, bits=bits)
    return Optimizer(
        name=name,
        states=partial(rule, block=block),
        trainer_states=partial(rule, block=trainer_block),
        source=_TORCHAO,
    )


def _make_compressed(ranks: int = 1, *, name: Name, compression: Compression) -> Optimizer:
    """Return an optimizer of DeepSpeed that compresses what ``ranks`` exchange."""
    return Optimizer(
        name=name,
        states=partial(compressed.list_compressed, compression=compression, ranks=ranks),
        step=partial(compressed.compute_compressed_step, compression=compression, ranks=ranks),
        step_formula="fp32 gradients, and what is compressed twice",
        over_ranks=partial(_make_compressed, name=name, compression=compression),
        unsaved_states=1,
        source="deepspeed 0.19.6 runtime/fp16/onebit, runtime/comm/nccl.py",
    )


_ROOTS = "square roots of all second moments"
_SCHEDULE_FREE = "schedulefree 1.4.1"

_TORCH_OPTIMIZERS = (
    _make_plain(Name.ADAMW, 2, lists=1, formula=_ROOTS),
    _make_plain(Name.ADAMW_FUSED, 2, counts=True),
    Optimizer(
        name=Name.ADAMW_LOOP,
        num_states=2,
        states=partial(rules.list_elementwise, num_states=2),
        record=steps.record_adamw_loop,
        step_formula="square root and quotient of one tensor, and the quotient of the one before",
        source=_TORCH,
    ),
    _make_plain(Name.SGD, 0),
    _make_plain(Name.SGD_MOMENTUM, 1),
    _make_plain(
        Name.ADAGRAD, 1, lists=2, formula="square roots of all sums and all scaled gradients"
    ),
    _make_plain(Name.RMSPROP, 1, lists=1, formula=_ROOTS),
    Optimizer(
        name=Name.ADAFACTOR_TORCH,
        states=rules.list_rows_and_columns_torch,
        record=steps.record_adafactor_torch,
        step_formula="updates of one tensor and of the one before",
        source="torch.optim 2.13 _adafactor.py, _single_tensor_adafactor",
    ),
    Optimizer(
        name=Name.MUON,
        states=rules.list_momentum_or_adamw,
        step=rules.compute_muon_step,
        step_formula=(
            "Newton-Schulz of the largest hidden matrix, or square roots of all other second "
            "moments"
        ),
        whole_tensors=True,
        source="torch.optim.Muon 2.13 for hidden matrices, foreach AdamW for the rest",
    ),
)
_PACKAGES = (
    _make_plain(
        Name.SCHEDULE_FREE_ADAMW,
        2,
        lists=1,
        formula=_ROOTS,
        source=f"{_SCHEDULE_FREE} adamw_schedulefree.py: z and exp_avg_sq, foreach",
    ),
    _make_plain(
        Name.SCHEDULE_FREE_RADAM,
        2,
        lists=1,
        formula=_ROOTS,
        source=f"{_SCHEDULE_FREE} radam_schedulefree.py: z and exp_avg_sq, foreach",
    ),
    _make_plain(
        Name.SCHEDULE_FREE_SGD, 1, source=f"{_SCHEDULE_FREE} sgd_schedulefree.py: z, foreach"
    ),
    Optimizer(
        name=Name.STABLE_ADAMW,
        states=rules.list_compensated,
        source="torch-optimi 0.3 stableadamw.py: Kahan's sum beside 16-bit weights, Triton kernels",
    ),
    _make_torchao(Name.ADAMW_8BIT_TORCHAO, bits=8, block=256, trainer_block=256),
    _make_torchao(Name.ADAMW_4BIT, bits=4, block=128, trainer_block=256),
    Optimizer(
        name=Name.ADAFACTOR,
        states=rules.list_rows_and_columns,
        record=steps.record_adafactor,
        step_formula=(
            "fp32 casts, square and update of one tensor, and the update of the one before"
        ),
        source="transformers 5.23 optimization.py Adafactor, beta1 None",
    ),
    Optimizer(
        name=Name.GALORE_ADAMW,
        states=partial(rules.list_low_rank, keeps_vectors=True),
        record=low_rank.record_galore,
        step_formula="singular value decomposition of one gradient every 200 steps, and the update "
        "of the tensor before",
        whole_tensors=True,
        source=(
            "galore-torch 1.0, rank 128 on the hidden matrices (transformers 5.23 "
            "trainer_optimizer.py)"
        ),
    ),
    Optimizer(
        name=Name.APOLLO,
        states=rules.list_low_rank_with_norm,
        record=low_rank.record_apollo,
        step_formula="scaled gradient of one tensor before and after its limiter, or root and "
        "quotient of one, and those of the tensor before",
        whole_tensors=True,
        source=(
            "apollo-torch 1.0.3, rank 128 on the hidden matrices (transformers 5.23 "
            "trainer_optimizer.py)"
        ),
    ),
)
_BITSANDBYTES_OPTIMIZERS = (
    _make_bitsandbytes(Name.ADAMW_8BIT, 1, 1, bits=8),
    _make_bitsandbytes(Name.PAGED_ADAMW_8BIT, 1, 1, bits=8, paged=True),
    _make_bitsandbytes(Name.ADAMW_BNB, 1, 1, bits=32),
    _make_bitsandbytes(Name.PAGED_ADAMW, 1, 1, bits=32, paged=True),
    _make_bitsandbytes(Name.LION, 1, bits=32),
    _make_bitsandbytes(Name.LION_8BIT, 1, bits=8),
    _make_bitsandbytes(Name.PAGED_LION, 1, bits=32, paged=True),
    _make_bitsandbytes(Name.PAGED_LION_8BIT, 1, bits=8, paged=True),
    _make_bitsandbytes(Name.RMSPROP_BNB, 1, bits=32),
    _make_bitsandbytes(Name.RMSPROP_8BIT, 1, bits=8),
    _make_bitsandbytes(Name.ADEMAMIX, 2, 1, bits=32),
    _make_bitsandbytes(Name.ADEMAMIX_8BIT, 2, 1, bits=8),
    _make_bitsandbytes(Name.PAGED_ADEMAMIX, 2, 1, bits=32, paged=True),
    _make_bitsandbytes(Name.PAGED_ADEMAMIX_8BIT, 2, 1, bits=8, paged=True),
)
_COMPRESSING_OPTIMIZERS = (
    _make_compressed(name=Name.ONEBIT_ADAM, compression=Compression(states=2)),
    _make_compressed(name=Name.ZERO_ONE_ADAM, compression=Compression(states=3, live_copies=1)),
    _make_compressed(
        name=Name.ONEBIT_LAMB, compression=Compression(states=3, live_copies=1, flat=False)
    ),
)

MODELLED: Mapping[str, Optimizer] = MappingProxyType(
    {
        optimizer.name.value: optimizer
        for optimizer in (
            *(*_TORCH_OPTIMIZERS, *_PACKAGES),
            *(*_BITSANDBYTES_OPTIMIZERS, *_COMPRESSING_OPTIMIZERS),
        )
    }
)


def get_optimizer(name: str) -> Optimizer:
    """Return the optimizer; raise NotModelledError for one that has no term."""
    if name not in MODELLED:
        raise NotModelledError(
            f"optimizer {name!r}", field="workload.optimizer", modelled=tuple(MODELLED)
        )
    return MODELLED[name]


def resolve_optimizer(workload: TrainWorkload, layout: Layout) -> Optimizer:
    """Return the optimizer as the job makes it.

    HF's Trainer is asked for its own states where the loop could be the Trainer's: one that keeps
    its logits during backward is not (transformers 5.23 ``trainer.py``, ``compute_loss``).
    """
    optimizer = get_optimizer(workload.optimizer)
    if optimizer.over_ranks is not None:
        return optimizer.over_ranks(layout.shards)
    is_trainer = workload.framework is Framework.TRANSFORMERS and not workload.keeps_logits
    if optimizer.trainer_states is None or not is_trainer:
        return optimizer
    return replace(
        optimizer,
        states=optimizer.trainer_states,
        fp32_tables=bool(optimizer.shared_bytes),
        source=f"{optimizer.source}; {_TRAINER}",
    )
