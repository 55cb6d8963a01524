"""Table of optimizers as data.

Each has its states per tensor, the temporaries of its step, and the source of both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from service.estimator.memory.optimizers import rules
from service.estimator.memory.optimizers.rules import StateRule, StepRule
from service.estimator.memory.optimizers.tensors import TrainedTensor
from service.estimator.values.errors import NotModelledError

STEP_COUNT_BYTES = 4
"""A fused optimizer keeps one fp32 step count per tensor on the device."""

LOOP_TEMPORARIES = 2
"""Tensors of the size of the one that torch.optim's plain AdamW loop is at."""

_TORCH = "torch.optim 2.13, counted on traces"
_BITSANDBYTES = "bitsandbytes optim/optimizer.py: blocks of 256, fp32 below 4096 elements"
_TORCHAO = (
    "torchao 0.18 optim/adam.py and optim/subclass_*.py; its compiled step is one fused kernel per "
    "tensor"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """Memory needs of one optimizer.

    ``num_states`` tensors of the weights' shape in the policy's optimizer dtype; None where
    ``states`` looks at each tensor. ``host_bytes_per_element``: states of tensors from 100,000
    elements on that live in managed memory beside the allocator. ``whole_tensors``: its step works
    on whole matrices, which no rank has once they are sharded.
    """

    name: str
    num_states: int | None = None
    states: StateRule
    per_element_temporaries: int | None = None
    """Elements of temporaries per stepped element, where ``step`` comes to that."""
    step: StepRule = rules.no_temporaries
    step_formula: str = "in place"
    shared_bytes: int = 0
    step_counts_on_device: bool = False
    host_bytes_per_element: int = 0
    whole_tensors: bool = False
    source: str = _TORCH

    @property
    def temporaries_of_one(self) -> int | None:
        """Elements of temporaries per element of a tensor stepped alone.

        None where its shape matters.
        """
        if self.per_element_temporaries is not None or self.num_states is None:
            in_place = 0 if self.step is rules.no_temporaries else None
            return (
                self.per_element_temporaries
                if self.per_element_temporaries is not None
                else in_place
            )
        return LOOP_TEMPORARIES

    def state_bytes(self, tensors: tuple[TrainedTensor, ...], width: int) -> int:
        """Return the bytes of all states of a rank's tensors.

        ``width`` is that of the policy's optimizer dtype.
        """
        return self.shared_bytes + sum(
            self.states(tensor, width) * tensor.count for tensor in tensors
        )


def _make_plain(
    name: str,
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
        states=partial(rules.compute_elementwise, num_states=num_states),
        per_element_temporaries=lists,
        step=partial(rules.compute_lists, count=lists),
        step_formula=formula,
        step_counts_on_device=counts,
        source=source,
    )


def _make_bitsandbytes(name: str, num_states: int, *, bits: int, paged: bool = False) -> Optimizer:
    rule = partial(
        rules.compute_blockwise_8bit if bits == 8 else rules.compute_elementwise_fp32,  # noqa: PLR2004 - bits
        num_states=num_states,
    )
    per_element = num_states * bits // 8
    return Optimizer(
        name=name,
        states=partial(rules.compute_managed, rule=rule, bytes_each=per_element) if paged else rule,
        shared_bytes=num_states * rules.QMAP_BYTES if bits == 8 else 0,  # noqa: PLR2004 - bits
        host_bytes_per_element=per_element if paged else 0,
        source=_BITSANDBYTES,
    )


def _make_torchao(name: str, *, bits: int, block: int) -> Optimizer:
    return Optimizer(
        name=name, states=partial(rules.compute_packed, bits=bits, block=block), source=_TORCHAO
    )


_ROOTS = "square roots of all second moments"

MODELLED: Mapping[str, Optimizer] = MappingProxyType(
    {
        optimizer.name: optimizer
        for optimizer in (
            _make_plain("adamw", 2, lists=1, formula=_ROOTS),
            _make_plain("adamw_fused", 2, counts=True),
            Optimizer(
                name="adamw_loop",
                num_states=2,
                states=partial(rules.compute_elementwise, num_states=2),
                step=rules.compute_one_by_one,
                step_formula=(
                    "square root and quotient of one tensor, and the quotient of the one before"
                ),
            ),
            _make_plain("sgd", 0),
            _make_plain("sgd_momentum", 1),
            _make_plain(
                "adagrad", 1, lists=2, formula="square roots of all sums and all scaled gradients"
            ),
            _make_plain("rmsprop", 1, lists=1, formula=_ROOTS),
            _make_plain(
                "schedule_free_adamw",
                2,
                lists=1,
                formula=_ROOTS,
                source="schedulefree 1.4.1 adamw_schedulefree.py: z and exp_avg_sq, foreach",
            ),
            _make_bitsandbytes("adamw_8bit", 2, bits=8),
            _make_bitsandbytes("paged_adamw_8bit", 2, bits=8, paged=True),
            _make_bitsandbytes("adamw_bnb", 2, bits=32),
            _make_bitsandbytes("paged_adamw", 2, bits=32, paged=True),
            _make_bitsandbytes("lion", 1, bits=32),
            _make_bitsandbytes("lion_8bit", 1, bits=8),
            _make_bitsandbytes("paged_lion_8bit", 1, bits=8, paged=True),
            _make_torchao("adamw_8bit_torchao", bits=8, block=256),
            _make_torchao("adamw_4bit", bits=4, block=128),
            Optimizer(
                name="adafactor",
                states=rules.compute_rows_and_columns,
                step=rules.compute_adafactor_step,
                step_formula=(
                    "fp32 casts, square and update of one tensor, and the update of the one before"
                ),
                source="transformers 5.23 optimization.py Adafactor, beta1 None",
            ),
            Optimizer(
                name="muon",
                states=rules.compute_momentum_or_adamw,
                step=rules.compute_muon_step,
                step_formula=(
                    "Newton-Schulz of the largest hidden matrix, or square roots of all other "
                    "second moments"
                ),
                whole_tensors=True,
                source="torch.optim.Muon 2.13 for hidden matrices, foreach AdamW for the rest",
            ),
            Optimizer(
                name="galore_adamw",
                states=rules.compute_low_rank,
                step=rules.compute_galore_step,
                step_formula="singular value decomposition of one gradient, every 200 steps",
                whole_tensors=True,
                source=(
                    "galore-torch 1.0, rank 128 on the hidden matrices (transformers 5.23 "
                    "trainer_optimizer.py)"
                ),
            ),
            Optimizer(
                name="apollo",
                states=rules.compute_low_rank_with_norm,
                step=rules.compute_apollo_step,
                step_formula="scaled gradient of one tensor before and after its limiter",
                whole_tensors=True,
                source=(
                    "apollo-torch 1.0.3, rank 128 on the hidden matrices (transformers 5.23 "
                    "trainer_optimizer.py)"
                ),
            ),
        )
    },
)


def get_optimizer(name: str) -> Optimizer:
    """Return the optimizer; raise NotModelledError for one that has no term."""
    if name not in MODELLED:
        raise NotModelledError(
            f"optimizer {name!r}", field="workload.optimizer", modelled=tuple(MODELLED)
        )
    return MODELLED[name]
