"""A question of a search: a model, a workload and a layout, with what was changed of each."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from service.catalog.models import load_architecture, load_config, resolve_model
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.heads.config import put_head_in_config
from service.estimator.values.generation import Client
from service.estimator.values.heads import Head
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload
from tests.tiny_models import TINY, tiny_config

TRAIN = TrainWorkload(
    sequence_length=64,
    micro_batch_size=2,
    precision=POLICIES["bf16"],
    keeps_logits=True,
    fp32_outputs=False,
)
SERVE = ServeWorkload(num_sequences=2, prompt_tokens=64, output_tokens=2, client=Client.LOOP)
LONE = Layout()
MIN_LAYERS = 2
"""Layers of a cut model: a lone one has none before it, whose tensors it would meet."""
Changes = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A model with changed fields and the workload that it runs.

    ``model`` is a model_type of a small config, or a model of the catalogue, of which ``layers``
    are run.
    """

    model: str
    base: Workload
    changes: Changes = field(default_factory=dict)
    options: Changes = field(default_factory=dict)
    layout: Changes = field(default_factory=dict)
    layers: int | None = None
    head: Head = Head.DEFAULT

    def __str__(self) -> str:
        """Write the question as it can be asked again."""
        kind = "train" if isinstance(self.base, TrainWorkload) else "serve"
        shown = {name: getattr(value, "name", value) for name, value in self.options.items()}
        parts = [f"{self.model}", kind, *(["layers", str(self.layers)] if self.layers else [])]
        parts += [self.head.value] if self.head is not Head.DEFAULT else []
        parts += [
            f"{name}={value}"
            for part in (self.changes, shown, self.layout)
            for name, value in part.items()
        ]
        return " ".join(parts)

    @property
    def workload(self) -> Workload:
        """Return the workload with its options."""
        return replace(self.base, **self.options)

    def make_layout(self) -> Layout:
        """Return the layout."""
        return replace(LONE, **self.layout)

    def read_config(self) -> Mapping[str, Any]:
        """Return the config.json."""
        if self.model in TINY:
            config = tiny_config(self.model)
        else:
            config = dict(load_config(resolve_model(self.model)))
            config.pop("quantization_config", None)
        changed = {**config, **self.changes}
        return (
            changed if self.head is Head.DEFAULT else put_head_in_config(changed, self.head, None)
        )

    @property
    def is_recorded(self) -> bool:
        """Whether a recording that we ship answers."""
        return self.model not in TINY and resolve_model(self.model).recording is not None

    def build_whole(self) -> Architecture:
        """Return the model with all of its layers."""
        if self.is_recorded:
            return load_architecture(resolve_model(self.model))
        return architecture_from_config(self.read_config())

    def build(self) -> Architecture:
        """Return the model as we read it, or as it was recorded."""
        model = self.build_whole()
        return model if self.layers is None else model.with_layers(self.layers)


def iter_simpler(question: Question) -> Iterator[Question]:
    """Yield the questions with one thing less."""
    if question.head is not Head.DEFAULT:
        yield replace(question, head=Head.DEFAULT)
    for name in ("layout", "options", "changes"):
        part: Changes = getattr(question, name)
        if name == "layout" and part:
            yield replace(question, layout={})
        for key in part:
            less = {other: value for other, value in part.items() if other != key}
            yield replace(question, **{name: less})  # type: ignore[arg-type]  # one of three names
    if question.layers is not None and question.layers > MIN_LAYERS:
        yield replace(question, layers=question.layers - 1)


def shrink(question: Question, differs: Callable[[Question], bool], *, tries: int) -> Question:
    """Return the simplest question found that still differs."""
    for _ in range(tries):
        for simpler in iter_simpler(question):
            tries -= 1
            if tries < 0:
                return question
            if differs(simpler):
                question = simpler
                break
        else:
            return question
    return question
