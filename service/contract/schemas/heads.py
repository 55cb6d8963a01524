"""Heads of models, as a request says them."""

from typing import Annotated

from msgspec import Meta

from service.estimator.values.heads import Head

HeadWord = Annotated[
    Head,
    Meta(
        description=(
            "Head of the model, in place of the one that `architectures` of its config names: "
            "`none` (hidden states, as embedding models have them), `causal_lm`, `masked_lm`, "
            "`seq2seq_lm`, `sequence_classification` (rerankers too), `token_classification`, "
            "`question_answering`, `reward` (one score); `default` is the family's language model."
        ),
        examples=["sequence_classification"],
    ),
]
NumLabels = Annotated[
    Annotated[int, Meta(ge=1, le=10**6)],
    Meta(description="Labels of a `head` that classifies; default the config's, else 2."),
]
