from typing import Literal

Head = Literal[
    "causal_lm",
    "default",
    "image_classification",
    "masked_lm",
    "none",
    "question_answering",
    "reward",
    "seq2seq_lm",
    "sequence_classification",
    "token_classification",
]

HEAD_VALUES: set[Head] = {
    "causal_lm",
    "default",
    "image_classification",
    "masked_lm",
    "none",
    "question_answering",
    "reward",
    "seq2seq_lm",
    "sequence_classification",
    "token_classification",
}


def check_head(value: str) -> Head:
    if value in HEAD_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {HEAD_VALUES!r}")
