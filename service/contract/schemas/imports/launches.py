"""Request and answer of POST /v1/launches/import."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, field

from service.contract.schemas.fields import Answer, JsonObject, Strict
from service.contract.schemas.fit import GpuReference, ModelReference
from service.contract.schemas.layouts import LayoutRequest
from service.formats.launches.values.launch import Launcher

FileName = Annotated[
    str, Meta(min_length=1, max_length=255, description="Name or path of the file.")
]


class LaunchFileRequest(Strict, frozen=True, kw_only=True):
    """A file of a launch."""

    name: FileName
    content: Annotated[str, Meta(max_length=1_000_000, description="Its text.")]


class LaunchImportRequest(Strict, frozen=True, kw_only=True):
    """A launch: files, a command or keyword arguments, and what they do not say."""

    launcher: Annotated[
        Launcher | UnsetType | None,
        Meta(description="Whose words these are; null, the default, is found out."),
    ] = UNSET
    files: Annotated[
        Annotated[list[LaunchFileRequest], Meta(max_length=16)] | UnsetType,
        Meta(description="Files of YAML, JSON, Python (read, never run) or a shell."),
    ] = UNSET
    command: Annotated[
        Annotated[str, Meta(max_length=1_000_000)]
        | Annotated[list[Annotated[str, Meta(max_length=65_536)]], Meta(max_length=10_000)]
        | UnsetType,
        Meta(
            description="What is typed to start it, as a text or as words.",
            examples=["vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2"],
        ),
    ] = UNSET
    arguments: Annotated[
        JsonObject | UnsetType,
        Meta(
            description=(
                "Keyword arguments as a script gives them: `TrainingArguments`, `SFTConfig` or "
                "those of `generate()`, with `LoraConfig`'s under `peft` and `from_pretrained`'s "
                "under `model_kwargs`."
            )
        ),
    ] = UNSET
    model: Annotated[
        ModelReference | UnsetType,
        Meta(description="The model, in place of the name that the launch has for it."),
    ] = UNSET
    gpu: Annotated[GpuReference | UnsetType, Meta(description="The GPU it runs on.")] = UNSET
    layout: Annotated[
        LayoutRequest | UnsetType, Meta(description="What the launch does not say of its layout.")
    ] = UNSET
    workload: Annotated[
        JsonObject | UnsetType,
        Meta(
            description=(
                "Fields of the workload that the launch leaves open or to a default, such as "
                "`sequence_length`; one that says otherwise than the launch is refused."
            )
        ),
    ] = UNSET


class ReadKeyAnswer(Answer, frozen=True, kw_only=True):
    """A setting that decides memory or time."""

    key: Annotated[str, Meta(description="Its name, as it was written.")]
    value: Annotated[Any, Meta(description="Its value, as it was written.")]
    meaning: Annotated[
        str,
        Meta(
            description="The field of the question that it became, or what it means.",
            examples=["workload.micro_batch_size = 2"],
        ),
    ] = field(name="as")
    where: Annotated[
        str,
        Meta(
            description="File and line, `command`, `arguments`, or `default:` and whose.",
            examples=["train.yaml:12"],
        ),
    ]


class OpenQuestionAnswer(Answer, frozen=True, kw_only=True):
    """A field of the question that the launch does not say."""

    field: Annotated[str, Meta(description="Path of the field in the question.")]
    why: Annotated[str, Meta(description="Why the launch does not say it.")]
    choices: Annotated[
        list[bool | int | float | str],
        Meta(description="Values that it may have; the first holds unless it is `missing`."),
    ]
    lower_bound: Annotated[
        int | None,
        Meta(
            description="The value with which memory is least: what does not fit with it does not "
            "fit whatever the field is. Null where none is known to be."
        ),
    ]


class LaunchImportAnswer(Answer, frozen=True, kw_only=True):
    """The question of a launch, and what became of each of its settings."""

    launcher: Annotated[Launcher, Meta(description="Whose words the launch was read in.")]
    question: Annotated[
        JsonObject,
        Meta(description="A body of POST /v1/fit, whole where nothing is `missing`."),
    ]
    read: Annotated[
        list[ReadKeyAnswer], Meta(description="Settings that count, defaults among them.")
    ]
    without_effect: Annotated[
        list[str], Meta(description="Settings that decide neither memory nor time.")
    ]
    ignored: Annotated[
        list[str], Meta(description="Settings that may decide either, and have no word here.")
    ]
    questions: Annotated[
        list[OpenQuestionAnswer],
        Meta(description="What the launch leaves open; `workload`, `layout` or `gpu` may say it."),
    ]
    missing: Annotated[
        list[str], Meta(description="Fields without which the question is not answered.")
    ]
    refusal: Annotated[
        str | None,
        Meta(
            description="What POST /v1/fit says to the question, where it reads it as illegal; "
            "null where it does not, or something is missing."
        ),
    ]
    warnings: Annotated[list[str], Meta(description="What the question does not hold for.")]
    versions: Annotated[
        dict[str, str],
        Meta(description="Releases whose keys and defaults these are, by package."),
    ]
