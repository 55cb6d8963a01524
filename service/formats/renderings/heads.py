"""Classes and adapters of models with another head than a language model's.

transformers 5.23 (``models/auto/modeling_auto.py``), peft 0.21 (``utils/peft_types.py``).
"""

from service.estimator.model.architecture import Architecture
from service.estimator.model.task_head import list_saved_modules
from service.estimator.values.heads import Head
from service.estimator.values.workload import TrainWorkload

_CLASSES = {
    Head.NONE: "AutoModel",
    Head.SEQUENCE_CLASSIFICATION: "AutoModelForSequenceClassification",
    Head.TOKEN_CLASSIFICATION: "AutoModelForTokenClassification",
    Head.QUESTION_ANSWERING: "AutoModelForQuestionAnswering",
}
_TASK_TYPES = {
    Head.NONE: "FEATURE_EXTRACTION",
    Head.SEQUENCE_CLASSIFICATION: "SEQ_CLS",
    Head.TOKEN_CLASSIFICATION: "TOKEN_CLS",
    Head.QUESTION_ANSWERING: "QUESTION_ANS",
}
_LANGUAGE_MODEL = "CAUSAL_LM"


def render_head_keywords(model: Architecture) -> dict[str, object]:
    """Return the keywords of ``from_pretrained`` that say a head's labels."""
    task = model.task
    if task is None or not task.num_labels or task.kind is Head.QUESTION_ANSWERING:
        return {}
    keywords: dict[str, object] = {"num_labels": task.num_labels}
    if model.spec.problem_type:
        keywords["problem_type"] = model.spec.problem_type
    return keywords


def render_head_training(model: Architecture, workload: TrainWorkload) -> dict[str, object]:
    """Return the keywords of ``LoraConfig`` that train a head in full.

    Adapters on all linear layers would be on the head as well.
    """
    modules = list_saved_modules(model.task)
    return {"modules_to_save": modules} if modules and workload.lora is not None else {}


def leave_head_unpacked(model: Architecture, keywords: dict[str, object]) -> dict[str, object]:
    """Return the keywords of ``from_pretrained`` with a head that can be trained.

    bitsandbytes leaves a last layer without a bias alone, and packs one with it.
    """
    modules, packed = list_saved_modules(model.task), keywords.get("quantization_config")
    if not modules or not isinstance(packed, dict) or "bits" in packed:
        return keywords
    return keywords | {"quantization_config": packed | {"llm_int8_skip_modules": modules}}


def get_task_type(model: Architecture) -> str:
    """Return PEFT's name of a model's task."""
    return _LANGUAGE_MODEL if model.task is None else _TASK_TYPES[model.task.kind]


def list_head_notes(model: Architecture, *, trains: bool) -> tuple[str, ...]:
    """Return notes on the class that a script loads and its loss."""
    if model.task is None:
        return ()
    notes = [f"the script loads {_CLASSES[model.task.kind]}"]
    if not trains:
        notes.append("the script calls the model once for each batch, with use_cache=False")
    elif model.task.kind is Head.NONE:
        notes.append(
            "the script compares the mean of the hidden states with an embedding for each "
            "sequence: sentence-transformers' mean pooling and MSELoss"
        )
    return tuple(notes)
