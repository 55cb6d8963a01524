"""A launch as it is handed in, and its question."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

STARTING_LOAD: Mapping[str, int] = MappingProxyType({"num_sequences": 1, "prompt_tokens": 512})
"""Load of a server whose launch says none: whether it starts, with room for one request."""


class Launcher(StrEnum):
    """Program or library whose settings are read."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TENSORRT_LLM = "tensorrt_llm"
    LLAMA_CPP = "llama_cpp"
    TGI = "tgi"
    LMDEPLOY = "lmdeploy"
    DEEPSPEED = "deepspeed"
    ACCELERATE = "accelerate"
    TRAINER = "trainer"
    TRL_SFT = "trl_sft"
    TRL_DPO = "trl_dpo"
    TRL_KTO = "trl_kto"
    TRL_ORPO = "trl_orpo"
    TRL_CPO = "trl_cpo"
    TRL_REWARD = "trl_reward"
    TRL_GRPO = "trl_grpo"
    TRL_RLOO = "trl_rloo"
    AXOLOTL = "axolotl"
    LLAMAFACTORY = "llamafactory"
    MS_SWIFT = "ms_swift"
    UNSLOTH = "unsloth"
    MEGATRON = "megatron"
    VERL = "verl"
    OPENRLHF = "openrlhf"
    NEMO = "nemo"
    TORCHTITAN = "torchtitan"
    LITGPT = "litgpt"
    GENERATE = "generate"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFile:
    """A file by its name, and its text."""

    name: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Facts of the launched model that a reader needs.

    ``dtype`` is the word of its config (``bfloat16``), None where it has none; ``max_length`` is in
    tokens, ``vocab_size`` the rows of its embedding, ``num_experts`` those of a layer.
    """

    model_type: str
    dtype: str | None = None
    max_length: int | None = None
    vocab_size: int | None = None
    num_experts: int = 0


def find_no_checkpoint(_model: str, /) -> Checkpoint | None:
    """Return None: no model is known."""
    return None


def find_no_skus(_words: tuple[tuple[str, ...], ...], _profile: str | None, /) -> tuple[str, ...]:
    """Return nothing: no GPU is known."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Files, a command, or the keyword arguments of a script.

    ``launcher`` None is detected. ``find_checkpoint`` tells what is known of a model by the name
    that the launch has for it. ``model`` is the name that the request gives in place of that, and
    ``layout`` what it says of the degrees, such as ``tensor_parallel``. ``find_skus`` tells the
    GPUs that a scheduler's words may mean: alternatives of which one holds, several that all do,
    and a MIG profile.
    """

    launcher: Launcher | None = None
    files: tuple[LaunchFile, ...] = ()
    command: tuple[str, ...] = ()
    arguments: Mapping[str, object] = field(default_factory=dict)
    model: str | None = None
    layout: Mapping[str, int] = field(default_factory=dict)
    find_checkpoint: Callable[[str], Checkpoint | None] = find_no_checkpoint
    find_skus: Callable[[tuple[tuple[str, ...], ...], str | None], tuple[str, ...]] = find_no_skus


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadKey:
    """A setting that decides memory or time.

    ``meaning`` is the field of the question that it became, with its value, or a sentence.
    """

    key: str
    value: object
    meaning: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestion:
    """A field of the question that the launch does not say.

    ``choices`` are values that it may have. ``is_assumed`` says that the question has one meanwhile
    (the first choice, if any), or is answered without; else it waits for somebody who says it.
    ``lower_bound`` is the value with which memory is least, None where none is known to be: what
    does not fit with it does not fit whatever the field is.
    """

    field: str
    why: str
    choices: tuple[bool | float | str, ...] = ()
    is_assumed: bool = False
    lower_bound: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedLaunch:
    """The question of a launch, its settings accounted for.

    ``question`` has the words of ``POST /v1/fit``. ``ignored`` are settings that may decide memory
    or time and have no word here; ``without_effect`` decide neither. ``open_fields`` are fields of
    the question that the launch leaves open, or to a default: whoever asks may say them otherwise.
    """

    launcher: Launcher
    question: Mapping[str, object]
    read: tuple[ReadKey, ...]
    without_effect: tuple[str, ...]
    ignored: tuple[str, ...]
    questions: tuple[OpenQuestion, ...]
    warnings: tuple[str, ...]
    versions: Mapping[str, str]
    open_fields: frozenset[str] = frozenset()
