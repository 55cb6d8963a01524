"""Answers of /v1/families."""

from typing import Annotated

from msgspec import Meta

from service.contract.schemas.fields import Answer


class TrainingAnswer(Answer, frozen=True, kw_only=True):
    """A framework and the methods that are modelled of a family in it."""

    framework: Annotated[str, Meta(description="Whose model code runs.", examples=["transformers"])]
    methods: Annotated[
        tuple[str, ...],
        Meta(
            description=(
                "What may be trained: `full`, `lora`, `qlora`, `peft` (IA³ on the layers that PEFT "
                "takes)."
            )
        ),
    ]


class RefusalAnswer(Answer, frozen=True, kw_only=True):
    """A way to train or serve a family that is refused, in the words of the refusal."""

    task: Annotated[str, Meta(description="`train` or `serve`.", examples=["train"])]
    runner: Annotated[str, Meta(description="The framework or engine.", examples=["megatron"])]
    method: Annotated[
        str | None, Meta(description="The method of training, null where a model is served.")
    ]
    reason: Annotated[str, Meta(description="Why, and what would be right.")]


class ModelFamilyAnswer(Answer, frozen=True, kw_only=True):
    """A family of models by the `model_type` of its config.json, and what is modelled of it."""

    name: Annotated[str, Meta(description="The `model_type`.", examples=["llama"])]
    group: Annotated[
        str,
        Meta(
            description=(
                "The kind of model: `dense`, `gpt` and `moe` decoders, `ssm` (state-space and "
                "hybrids), `encoders` (encoder-decoders too), `vision` (with and without text)."
            ),
            examples=["dense"],
        ),
    ]
    models: Annotated[
        tuple[str, ...], Meta(description="Names of the catalogue's models of this family.")
    ]
    training: Annotated[
        tuple[TrainingAnswer, ...], Meta(description="Frameworks that train it, by method.")
    ]
    serving: Annotated[tuple[str, ...], Meta(description="Engines that serve it.")]
    refused: Annotated[
        tuple[RefusalAnswer, ...], Meta(description="Everything else, each with its reason.")
    ]


class ModelFamilyPage(Answer, frozen=True, kw_only=True):
    """One page of families, by name."""

    items: Annotated[tuple[ModelFamilyAnswer, ...], Meta(description="The families.")]
    next_cursor: Annotated[
        str | None, Meta(description="Where the next page begins; null on the last one.")
    ]
