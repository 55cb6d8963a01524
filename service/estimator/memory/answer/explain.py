"""Components of the peak, with their formulas in numbers and sources."""

from service.estimator.memory.adapter_bases import BaseWeights
from service.estimator.memory.phase_peaks import PhasePeak
from service.estimator.memory.states import count_models
from service.estimator.memory.static import StaticMemory
from service.estimator.memory.training_pass import BatchNotes
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.weights import weight_bytes
from service.estimator.model.recorded.items import get_reads
from service.estimator.values.result import Basis, Component
from service.estimator.values.units import format_count
from service.estimator.values.workload import (
    Checkpointing,
    Method,
    OffloadTarget,
)

TRACED = (
    "autograd's rules replayed on the model's own forward; equal to traces of transformers 5.23 on "
    "torch 2.13"
)
_PARTITIONED = (
    "what inductor's partitioner keeps of transformers' graphs (torch/_functorch/partitioners.py, "
    "counted); an interval of the answer reaches to the step without compile"
)
_ZERO = "arXiv:1910.02054, section 5"
_ADAPTERS = "arXiv:2106.09685, section 4.1"
_KEPT = {
    Checkpointing.NONE: "every tensor kept",
    Checkpointing.SELECTIVE: (
        "what selective checkpointing keeps, and what is recomputed of one block"
    ),
    Checkpointing.FULL: "one block recomputed",
}
_ORDER = (
    "weights",
    "adapters",
    "master_weights",
    "gradients",
    "optimizer_states",
    "activations",
    "logits",
    "kv_cache",
    "recurrent_state",
    "gathered_weights",
    "communication_buffers",
    "temporaries",
)

_OF_TOKENS = frozenset({"activations", "logits", "temporaries"})
"""Components of the pass; the temporaries of the optimizer's step are no part of it."""


def sort_parts(parts: dict[str, int]) -> list[tuple[str, int]]:
    """Return the nonzero parts in the order of an answer."""
    return [(name, parts[name]) for name in _ORDER if parts.get(name)]


class TrainFormulas:
    """Formulas of a training job's components, in numbers."""

    def __init__(self, static_memory: StaticMemory) -> None:
        """Explain the components of a rank."""
        self._setup, self._states = static_memory.setup, static_memory.states
        self._trained, self._shards = static_memory.trained, static_memory.shards
        self._precision = self._setup.workload.precision
        self._known: dict[str, tuple[Basis, str, str]] = {}

    def build_components(self, notes: BatchNotes, peak: PhasePeak) -> list[Component]:
        """Return the components of the peak of a batch and a sequence."""
        steps = peak.name == "optimizer_step"
        return [
            Component(name, bytes_, *self._describe(name, notes, steps=steps))
            for name, bytes_ in sort_parts(peak.parts)
        ]

    def _describe(self, name: str, notes: BatchNotes, *, steps: bool) -> tuple[Basis, str, str]:
        """Return basis, formula and source of a component."""
        if name in _OF_TOKENS and not (steps and name == "temporaries"):
            if self._setup.workload.compile:
                return Basis.FORMULA, self._describe_tokens(name, notes), _PARTITIONED
            return Basis.EXACT, self._describe_tokens(name, notes), TRACED
        formula = self._known.get(name)
        if formula is None:
            formula = self._known[name] = self._describe_fixed(name)
        return formula

    def _describe_fixed(self, name: str) -> tuple[Basis, str, str]:
        """Return basis, formula and source of a component that no batch changes."""
        if name == "optimizer_states":
            return Basis.EXACT, self._optimizer(), self._setup.optimizer.source
        if name == "temporaries":
            return Basis.EXACT, self._setup.optimizer.step_formula, self._setup.optimizer.source
        exact = {
            "weights": self._weights,
            "adapters": self._adapters,
            "master_weights": self._masters,
            "gradients": self._gradients,
        }
        if name in exact:
            return Basis.EXACT, exact[name](), _ADAPTERS if name == "adapters" else _ZERO
        return (
            Basis.FORMULA,
            self._sharding(name),
            "torch/distributed/fsdp and deepspeed/runtime/zero, read",
        )

    def _adapters(self) -> str:
        width, head = self._trained.trained_dtype.bytes_per_element, self._trained.saved_head
        copied = f" + {head.numel} params of the head x {head.dtype.bytes_per_element} B"
        return _format_per_rank(
            f"{format_count(self._trained.trained)} adapter params x {width} B"
            + copied * bool(head.weights),
            self._shards.weights,
        )

    def _masters(self) -> str:
        dtype = self._precision.master_dtype
        width = dtype.bytes_per_element if dtype is not None else 0
        return _format_per_rank(
            f"{format_count(self._trained.trained)} params x {width} B", self._shards.optimizer
        )

    def _weights(self) -> str:
        if self._setup.workload.offload.parameters is not OffloadTarget.NONE:
            return "buffers alone; the weights are on the host"
        total = self._setup.model.parameter_counts().total
        if (
            self._setup.workload.lora is not None
            and (base := self._setup.base_weights).scheme is not None
        ):
            return _describe_packed_weights(self._setup.model, base, self._shards.weights)
        models = "policy and reference: 2 x " * (count_models(self._setup.workload) - 1)
        return _format_per_rank(
            f"{models}{format_count(total)} params x "
            f"{self._precision.param_dtype.bytes_per_element} B",
            self._shards.weights,
        )

    def _gradients(self) -> str:
        width = self._trained.grad_dtype.bytes_per_element
        is_full = self._setup.workload.method is Method.FULL
        main = self._precision.main_grad_bytes_per_param if is_full else 0
        each = f"({width} + {main})" if main else f"{width}"
        return "up to " + _format_per_rank(
            f"{format_count(self._trained.trained)} params x {each} B", self._shards.gradients
        )

    def _optimizer(self) -> str:
        optimizer, count = (
            self._setup.optimizer,
            format_count(self._trained.trained),
        )
        if optimizer.num_states is None:
            bytes_per_param = (
                self._states.optimizer_states * self._shards.optimizer / self._trained.trained
            )
            return _format_per_rank(
                f"{optimizer.name} states of {count} params, {bytes_per_param:.3f} B each",
                self._shards.optimizer,
            )
        width = self._trained.optimizer_dtype.bytes_per_element
        states = (
            f"{optimizer.name}: {optimizer.num_states} states of {count} params x {width} B each"
        )
        return _format_per_rank(states, self._shards.optimizer)

    def _describe_tokens(self, name: str, notes: BatchNotes) -> str:
        workload, stacks = self._setup.workload, notes.stacks
        if name == "logits":
            tokens = f"{notes.batch_size} x {stacks[-1].length} tokens"
            alive = ": logits, their fp32 copies and gradients alive at this instant"
            if notes.evaluates:
                has_others = workload.evaluation is not None and workload.evaluation.kept_batches
                copies = ", their fp32 copies and those kept of other batches"
                alive = f": logits{copies if has_others else ' and their fp32 copies'}"
            return describe_scores(self._setup.model, tokens, alive)
        retained = _KEPT[workload.activation_checkpointing]
        if workload.compile and workload.activation_checkpointing is Checkpointing.NONE:
            retained = "inputs of products and attention, one number per row of each norm"
        if notes.evaluates:
            retained = "an evaluation without a graph"
        passes = (
            f"{self._count(notes.batch_size, stack.length)} through {stack.layers} layers"
            for stack in stacks
        )
        return f"{' + '.join(passes)}, {retained}, {workload.attention.value} attention"

    def _count(self, batch_size: int, length: int) -> str:
        reads = get_reads(self._setup.model)
        if reads is None:
            return f"{batch_size} x {length} tokens"
        return reads.describe(batch_size, length)

    def _sharding(self, name: str) -> str:
        if name == "gathered_weights":
            dtype = self._precision.compute_dtype.value
            return f"weights gathered or cast to {dtype} for this instant"
        return f"{self._setup.layout.sharding.value} buckets over {self._setup.layout.shards} ranks"


def describe_scores(model: Architecture, rows: str, note: str) -> str:
    """Return the formula of logits or scores in numbers."""
    if model.task is None:
        return f"{rows} x {model.vocab_size} vocabulary{note}"
    return f"{rows} x {model.head.out_features} scores of head {model.task.kind}{note}"


def _describe_packed_weights(model: Architecture, base: BaseWeights, shards: int) -> str:
    """Return a formula of quantised weights in numbers.

    Its terms are codes, scales, and weights that stay in their dtype.
    """
    assert base.scheme is not None  # noqa: S101 - the caller asked for quantised weights
    weights = weight_bytes(model, base.scheme, base.dtype)
    codes = _format_per_rank(
        f"({weights.quantised} B of codes + {weights.unquantised} B in {base.dtype.value})", shards
    )
    return f"{base.scheme.packing.value}: {codes} + {weights.scales} B of scales"


def _format_per_rank(formula: str, shards: int) -> str:
    return f"{formula} / {shards} ranks" if shards > 1 else formula
