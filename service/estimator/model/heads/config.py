"""Heads as a config.json says them, or a caller instead of it.

Fields and defaults are those of transformers 5.23 (``configuration_utils.py``,
``modeling_layers.py``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from service.estimator.model.config_reader import (
    Config,
    put_known_model_type,
    read_fraction,
    read_integer,
    read_string,
)
from service.estimator.model.heads.classes import list_classes, list_known_names
from service.estimator.model.spec import DecoderSpec
from service.estimator.values.errors import InvalidConfigError, InvalidInputError, NotModelledError
from service.estimator.values.heads import OWN_HEADS, Head, Problem

S = TypeVar("S", bound=DecoderSpec)

NUM_LABELS = 2
"""Labels where a config names none."""
_PREDICTORS = ("num_nextn_predict_layers", "mtp_num_hidden_layers")
_ANSWER_ENDS = 2
_TOKEN_DROPOUT = 0.1
"""Dropout before token classification where a config has neither field for it."""
_HIDDEN_DROPOUT = {"bloom": 0.0, "falcon": 0.0, "stablelm": 0.0}
"""Families whose configs have ``hidden_dropout``, with its default."""
_FIXED_DROPOUT = frozenset({"gpt_neo", "gpt_neox"})
"""Families that read ``classifier_dropout`` alone."""
_BERTS = frozenset({"bert", "camembert", "electra", "roberta", "xlm-roberta"})
_DISTILBERT = {
    Head.SEQUENCE_CLASSIFICATION: ("seq_classif_dropout", 0.2),
    Head.TOKEN_CLASSIFICATION: ("dropout", 0.1),
    Head.QUESTION_ANSWERING: ("qa_dropout", 0.1),
}


def read_head(config: Config, own_classes: Sequence[str] = ()) -> Head:
    """Return the head that ``architectures`` names, else the family's own.

    ``own_classes`` are those of a family of images, which has no other head.
    """
    declared = config.get("architectures")
    if declared is None or declared == []:
        return Head.DEFAULT
    if not isinstance(declared, list) or not all(isinstance(name, str) for name in declared):
        message = f"architectures is {declared!r}; it must list the name of a class"
        raise InvalidConfigError(message, field="architectures")
    model_type = read_string(config, "model_type", "")
    classes = dict.fromkeys(own_classes, Head.DEFAULT) or list_known_names(model_type)
    for name in declared:
        if name not in classes:
            raise NotModelledError(
                f"the head of {name} (architectures) beside model_type {model_type}",
                field="architectures",
                modelled=[
                    *(own_classes or list_classes(model_type)),
                    "a head that is said instead",
                ],
            )
    head = classes[declared[0]]
    return Head.DEFAULT if head in OWN_HEADS else head


def put_head_in_config(config: Config, head: Head, num_labels: int | None) -> Config:
    """Return the config with another head than the one it names.

    Raises NotModelledError for one that its family has not, InvalidInputError for labels of a head
    that has none.
    """
    model_type = put_known_model_type(config).get("model_type")
    classes = {kind: name for name, kind in list_classes(str(model_type)).items()}
    kind = Head.SEQUENCE_CLASSIFICATION if head is Head.REWARD else head
    if kind is Head.DEFAULT:
        resolve_labels(head, num_labels)
        return {name: value for name, value in config.items() if name != "architectures"}
    if kind not in classes:
        raise NotModelledError(
            f"head {head.value} of {model_type}", field="head", modelled=list_heads(str(model_type))
        )
    labels = resolve_labels(head, num_labels)
    changed = {**config, "architectures": [classes[kind]]}
    if labels is None:
        return changed
    unnamed = {
        name: value for name, value in changed.items() if name not in {"id2label", "label2id"}
    }
    return {**unnamed, "num_labels": labels}


def put_head_in_spec(
    spec: Mapping[str, object], head: Head, num_labels: int | None
) -> Mapping[str, object]:
    """Return our own specification with another head."""
    family = str(spec.get("family"))
    if head.value not in list_heads(family):
        raise NotModelledError(
            f"head {head.value} of {family}", field="head", modelled=list_heads(family)
        )
    labels = resolve_labels(head, num_labels)
    dropout = spec.get("residual_dropout", 0.0)
    config = {
        "model_type": family,
        "num_labels": labels or NUM_LABELS,
        "hidden_dropout_prob": dropout,
        "dropout": dropout,
    }
    kind = Head.SEQUENCE_CLASSIFICATION if head is Head.REWARD else head
    if kind is Head.DEFAULT or kind in OWN_HEADS:
        own = {name: value for name, value in spec.items() if name not in HEAD_FIELDS}
        return own if labels is None else {**own, "vocab_size": labels}
    return {**spec, **_read_fields(config, kind), "tie_word_embeddings": False}


def resolve_labels(head: Head, num_labels: int | None) -> int | None:
    """Return the labels of a requested head; None for the config's."""
    if head is Head.REWARD:
        if num_labels not in {None, 1}:
            message = (
                f"num_labels is {num_labels}, and head reward has one score: leave it out, or say "
                "sequence_classification"
            )
            raise InvalidInputError(message, field="num_labels")
        return 1
    if num_labels is not None and head not in CLASSIFIERS:
        message = (
            f"num_labels is {num_labels}, and head {head.value} has no labels; it goes with "
            f"{', '.join(sorted(CLASSIFIERS))}"
        )
        raise InvalidInputError(message, field="num_labels")
    return num_labels


def list_heads(model_type: str) -> list[str]:
    """Return the words for the heads of a family."""
    heads = list(list_classes(model_type).values())
    return [*heads, *[Head.REWARD] * (Head.SEQUENCE_CLASSIFICATION in heads), Head.DEFAULT]


def add_head(spec: S, config: Config, head: Head) -> S:
    """Return the numbers of a model with those of its heads."""
    predictors = count_predictors(config)
    if predictors:
        spec = replace(spec, num_predictors=predictors)
    if head is Head.DEFAULT:
        return spec
    fields = _read_fields(config, head)
    return replace(spec, tie_word_embeddings=False, **fields)  # type: ignore[arg-type]  # by the names of the fields


def count_predictors(config: Config) -> int:
    """Return the layers of multi-token prediction that a checkpoint has.

    transformers loads none of them; engines do (vLLM 0.33.0, ``config/speculative.py``), one of
    Qwen3-Next, whose config counts none (``models/qwen3_next_mtp.py``).
    """
    for name in _PREDICTORS:
        if config.get(name, 0) != 0:
            return read_integer(config, name, 0)
    return int(config.get("model_type") == "qwen3_next")


def check_head(spec: DecoderSpec) -> None:
    """Raise InvalidConfigError for a head that the family cannot have."""
    if spec.head == Head.DEFAULT:
        return
    heads = [head.value for head in list_classes(spec.family).values() if head not in OWN_HEADS]
    if spec.head not in heads:
        message = (
            f"head is {spec.head!r}; of {spec.family} it is {' or '.join(['default', *heads])}"
        )
        raise InvalidConfigError(message, field="head")
    fewest = 0 if spec.head == Head.NONE else 1
    if spec.num_labels < fewest:
        message = f"num_labels is {spec.num_labels}; head {spec.head} has 1 or more"
        raise InvalidConfigError(message, field="num_labels")


def _read_fields(config: Config, head: Head) -> dict[str, object]:
    labels = 0 if head is Head.NONE else count_labels(config)
    if head is Head.QUESTION_ANSWERING:
        labels = _count_answer_ends(config)
    return {
        "head": head.value,
        "num_labels": labels,
        "head_dropout": _read_dropout(config, head),
        "problem_type": _read_problem(config, labels)
        if head is Head.SEQUENCE_CLASSIFICATION
        else "",
    }


def count_labels(config: Config) -> int:
    """Count the labels that are named or said; two by default."""
    names = config.get("id2label")
    if isinstance(names, Mapping) and names:
        return len(names)
    return read_integer(config, "num_labels", NUM_LABELS)


def _count_answer_ends(config: Config) -> int:
    """Return the scores of a token: two, or as many as labels."""
    model_type = config.get("model_type")
    by_labels = model_type in _BERTS | {"distilbert", "gptj", "modernbert"}
    labels = count_labels(config) if by_labels else _ANSWER_ENDS
    if labels != _ANSWER_ENDS:
        message = f"num_labels is {labels}, and question answering has 2: the ends of an answer"
        raise InvalidConfigError(message, field="num_labels")
    return labels


def _read_problem(config: Config, num_labels: int) -> str:
    """Return the loss that a config names, empty where its labels decide."""
    named = read_string({"": config.get("problem_type") or ""}, "", "")
    if named and named not in list(Problem):
        message = f"problem_type is {named!r}; it is one of {', '.join(Problem)}"
        raise InvalidConfigError(message, field="problem_type")
    return "" if named == get_problem("", num_labels) else named


def get_problem(named: str, num_labels: int) -> Problem:
    """Return the loss of so many labels, where none is named."""
    if named:
        return Problem(named)
    return Problem.REGRESSION if num_labels == 1 else Problem.SINGLE_LABEL


def _read_dropout(config: Config, head: Head) -> float:
    """Return the probability of the dropout before the output layer."""
    model_type = str(config.get("model_type"))
    if model_type == "distilbert":
        return read_fraction(config, *_DISTILBERT[head]) if head in _DISTILBERT else 0.0
    named = {name: value for name, value in config.items() if value is not None}
    if head in CLASSIFIERS and model_type in _BERTS:
        hidden = read_fraction(named, "hidden_dropout_prob", 0.1)
        return read_fraction(named, "classifier_dropout", hidden)
    if model_type == "modernbert" and head is not Head.NONE:
        return read_fraction(named, "classifier_dropout", 0.0)
    if head is not Head.TOKEN_CLASSIFICATION or model_type in _BERTS:
        return 0.0
    if model_type in _FIXED_DROPOUT:
        return read_fraction(named, "classifier_dropout", _TOKEN_DROPOUT)
    default = _HIDDEN_DROPOUT.get(model_type, _TOKEN_DROPOUT)
    return read_fraction(
        named, "classifier_dropout", read_fraction(named, "hidden_dropout", default)
    )


CLASSIFIERS = frozenset(
    {Head.SEQUENCE_CLASSIFICATION, Head.TOKEN_CLASSIFICATION, Head.IMAGE_CLASSIFICATION}
)
"""Heads of as many outputs as there are labels."""
HEAD_FIELDS = frozenset({"head", "num_labels", "head_dropout", "problem_type"})
"""Fields of a specification that say its head."""
