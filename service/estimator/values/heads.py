"""Heads of models: what stands behind the last hidden state."""

from enum import StrEnum


class Head(StrEnum):
    """Head of a model, as a request or its ``architectures`` says it."""

    DEFAULT = "default"
    """the head of the family's own task: of a text model, its language-model head"""
    NONE = "none"
    """hidden states alone, as embedding models have them, with a pooler where the class has one"""
    CAUSAL_LM = "causal_lm"
    MASKED_LM = "masked_lm"
    SEQ2SEQ_LM = "seq2seq_lm"
    SEQUENCE_CLASSIFICATION = "sequence_classification"
    """some scores of each sequence, as classifiers and rerankers have them"""
    TOKEN_CLASSIFICATION = "token_classification"  # noqa: S105 - the task, no secret
    QUESTION_ANSWERING = "question_answering"
    """two scores of each token: where an answer begins, and where it ends"""
    REWARD = "reward"
    """one score of each sequence: sequence classification with one label"""
    IMAGE_CLASSIFICATION = "image_classification"
    """some scores of each image, which a vision model's own head gives"""


LANGUAGE_MODELS = frozenset({Head.CAUSAL_LM, Head.MASKED_LM, Head.SEQ2SEQ_LM})
"""Heads over a vocabulary, of which a text family has one."""
OWN_HEADS = LANGUAGE_MODELS | {Head.IMAGE_CLASSIFICATION}
"""Heads of a family's own task, which is what ``default`` means."""
SEQUENCE_HEADS = frozenset({Head.NONE, Head.SEQUENCE_CLASSIFICATION, Head.REWARD})
"""Heads that make one result of a whole sequence."""


class Problem(StrEnum):
    """Loss of sequence classification (transformers' ``problem_type``)."""

    REGRESSION = "regression"
    """squared errors"""
    SINGLE_LABEL = "single_label_classification"
    """cross entropy"""
    MULTI_LABEL = "multi_label_classification"
    """binary cross entropy of each label"""
