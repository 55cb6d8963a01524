"""``generate`` in place of a plain loop.

transformers' own ``generate`` runs and chooses tokens. Between the prompt and the last two steps
the cache is brought to its length in one pass, as the plain loop does it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from inspect import signature
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from transformers import GenerationConfig, LogitsProcessor, PreTrainedModel

MAX_STEPS = 2
"""Steps that one call takes: the scores of the first live through the second."""


class StepWatch(LogitsProcessor):
    """Processor that changes no score and counts the passes."""

    def __init__(self, num_steps: int, on_first: Callable[[], None]) -> None:
        """Watch so many steps; ``on_first`` is called after the first of several."""
        self.num_steps, self.num_done, self._on_first = num_steps, 0, on_first

    def call_first(self, before: Callable[[], object]) -> None:
        """Call something else before what is called after the first step."""
        on_first = self._on_first

        def call_both() -> None:
            before()
            on_first()

        self._on_first = call_both

    def __call__(self, _ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Count a step and return its scores as they are."""
        self.num_done += 1
        if self.num_done == 1 < self.num_steps:
            self._on_first()
        return scores


def generate(
    model: PreTrainedModel,
    ids: torch.Tensor,
    cache: object,
    watch: StepWatch,
    *,
    samples: bool,
    decodes: bool,
) -> None:
    """Generate the watched steps' tokens after ``ids``.

    No end of sequence is known, so that every step is taken; ``decodes`` says that the first reads
    a cache.
    """
    model.generation_config = GenerationConfig()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    with ExitStack() as stack:
        if isinstance(next(model.parameters()), FakeTensor):
            # A mode slows every call, and real tensors know their values.
            stack.enter_context(_KnownValues(watch))
        if decodes:
            stack.enter_context(_copy_experts(model))
            stack.enter_context(_read_state(model))
        else:
            watch.call_first(lambda: stack.enter_context(_copy_experts(model)))
        model.generate(  # type: ignore[operator]  # of every model that can generate
            ids,
            attention_mask=torch.ones_like(ids),
            **{get_cache_name(model): cache},
            max_new_tokens=watch.num_steps,
            do_sample=samples,
            logits_processor=[watch],
            disable_compile=True,
        )


def get_cache_name(model: PreTrainedModel) -> str:
    """Return the name under which a model takes its cache."""
    is_state = "cache_params" in signature(model.forward).parameters
    return "cache_params" if is_state else "past_key_values"


@contextmanager
def _copy_experts(model: PreTrainedModel) -> Iterator[None]:
    """Run experts by copies of their weights, as CUDA's decode does.

    It does so by itself where tensors say that they are on a GPU, but for the first step of a call.
    """
    before = model.get_experts_implementation()
    if "grouped_mm" not in before.values():
        yield
        return
    model.set_experts_implementation(
        {name: "batched_mm" if kind == "grouped_mm" else kind for name, kind in before.items()}
    )
    try:
        yield
    finally:
        model.set_experts_implementation(before)


@contextmanager
def _read_state(model: PreTrainedModel) -> Iterator[None]:
    """Let the first step of a call read a state.

    ``generate`` cuts the tokens of which a cache has keys and values. A state does not say how many
    it has seen, and would be made anew from all of them.
    """
    prepare: Callable[..., object] = model.prepare_inputs_for_generation  # type: ignore[assignment]  # a method
    if get_cache_name(model) != "cache_params":
        yield
        return

    @wraps(prepare)
    def prepare_last_token(ids: torch.Tensor, **others: Any) -> object:  # noqa: ANN401 - as they are
        later = {"is_first_iteration": False, "next_sequence_length": 1}
        return prepare(ids, **others | later)

    model.__dict__["prepare_inputs_for_generation"] = prepare_last_token
    try:
        yield
    finally:
        del model.__dict__["prepare_inputs_for_generation"]


class _KnownValues(TorchFunctionMode):
    """Function mode that answers what ``generate`` asks of fake tensors.

    Before the first step: whether the attention mask is all ones, which it is. After a step:
    whether all sequences have ended, which they have after the last one.
    """

    def __init__(self, watch: StepWatch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        if func is torch.Tensor.__bool__ and isinstance(args[0], FakeTensor):
            return self._watch.num_done in {0, self._watch.num_steps}
        return func(*args, **(kwargs or {}))
