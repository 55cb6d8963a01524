"""Flags: the whole vocabulary of the contract, and nothing in a request that was not said."""

from argparse import Action, ArgumentTypeError
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from service.base.errors import InvalidRequestError
from service.cli.flags import add_gpu, add_question, build_workload, get_gpu
from service.cli.model_files.naming import get_model
from service.cli.schema_flags import translate_to_flags
from service.contract.schemas.fit import FitRequest
from service.contract.schemas.layouts import LayoutRequest
from service.contract.schemas.serving import ServeRequest
from service.contract.schemas.workload import TrainRequest, WorkloadRequest
from service.terminal.arguments import Parser, UsageError

TRAIN = ("llama-2-7b", "--task", "train", "--sequence-length", "4096")


class Said(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The part of a request that flags make."""

    workload: WorkloadRequest
    layout: LayoutRequest


def build_parser() -> Parser:
    """Return a parser of a question with a GPU."""
    parser = Parser(prog="question")
    add_question(parser)
    add_gpu(parser)
    return parser


def ask(*arguments: str) -> dict[str, object]:
    """Return the workload and the layout that a command line says."""
    return build_workload(build_parser().parse_args(arguments))


@pytest.mark.parametrize("schema", [TrainRequest, ServeRequest, LayoutRequest])
def test_every_field_of_the_contract_has_a_flag(schema: type[Struct]) -> None:
    """A word that HTTP takes can be said on the command line."""
    shown = build_parser().format_help()

    missing = [
        name
        for name in schema.__struct_encode_fields__
        if f"--{name.replace('_', '-')}" not in shown
    ]
    assert missing == []


def is_taken(flag: Action, text: str) -> bool:
    """Say whether the contract takes what a flag makes of a text."""
    section, *path = flag.dest.split(".")
    is_serving = path[0] in ServeRequest.__struct_encode_fields__
    needed = (
        {"task": "serve", "num_sequences": 1, "prompt_tokens": 1}
        if is_serving
        else {"task": "train", "sequence_length": 1}
    )
    document: dict[str, Any] = {"workload": needed, "layout": {}}
    # What a word of the contract needs beside it.
    place = (
        document[section]
        if path[0] != "speculative"
        else document[section].setdefault("speculative", {"num_tokens": 1})
    )
    for name in path[:-1]:
        place = place if name == "speculative" else place.setdefault(name, {})
    try:
        place[path[-1]] = flag.type(text) if callable(flag.type) else text == "yes"
        msgspec.convert(document, Said, strict=True)
    except (ArgumentTypeError, msgspec.ValidationError):
        return False
    return True


@pytest.mark.parametrize(
    "flag",
    [flag for flag in build_parser()._actions if "." in flag.dest],  # noqa: SLF001 - argparse shows its flags nowhere else
    ids=lambda flag: flag.dest,
)
def test_every_flag_can_be_said(flag: Action) -> None:
    """Of a number, a size, a version, a word that the help lists and any word, the contract takes
    at least one.
    """
    listed = (flag.help or "").rpartition(": ")[2].split(", ")

    assert any(
        is_taken(flag, text)
        for text in (
            *("1", "4", "0.5", "0.19.0", "64000000000", *listed, "mlp", "yes"),
            *("64x64", "8x64x64", "{}"),
        )
    )


def test_a_list_of_names_is_said_with_commas() -> None:
    """Kinds of modules that are frozen are a list, of one as well."""
    said = [ask(*TRAIN, "--frozen", words)["workload"] for words in ("vision", "vision,projector")]

    assert [work["frozen"] for work in said] == [["vision"], ["vision", "projector"]]  # type: ignore[index]  # objects


def test_memory_is_bytes_or_a_size() -> None:
    """A host's memory is the integer that the contract wants, or text with a unit."""
    said = ask(*TRAIN, "--host-memory-bytes", "64000000000", "--nvme-bytes", "2Ti")

    assert said["layout"] == {"host_memory_bytes": 64_000_000_000, "nvme_bytes": "2Ti"}


def test_guessing_ahead_is_said_word_by_word() -> None:
    """Speculative decoding is a section like adapters; its draft model is a name, or an object that
    brings a config along.
    """
    serving = ("llama-2-7b", "--task", "serve", "--num-sequences", "1", "--prompt-tokens", "9")
    said = ask(*serving, "--speculative-num-tokens", "3", "--speculative-draft", "llama-3.2-1b")[
        "workload"
    ]

    assert said["speculative"] == {"num_tokens": 3, "draft": "llama-3.2-1b"}  # type: ignore[index]  # an object
    brought = ask(*serving, "--speculative-draft", '{"hf_config": {"model_type": "llama"}}')[
        "workload"
    ]
    assert brought["speculative"] == {"draft": {"hf_config": {"model_type": "llama"}}}  # type: ignore[index]  # an object


def test_only_what_was_said_is_in_the_request() -> None:
    """Defaults are the contract's to fill in, and to list as assumptions."""
    assert ask(*TRAIN) == {"workload": {"task": "train", "sequence_length": 4096}}


def test_words_go_where_the_contract_has_them() -> None:
    """Nested words, lists, switches and both their senses find their place."""
    said = ask(
        *TRAIN,
        *("--method", "lora", "--lora-rank", "8", "--lora-target-modules", "q_proj,v_proj"),
        *(
            "--offload-optimizer",
            "cpu",
            "--padding-mask",
            "--zero-stage",
            "3",
            "--no-reshard-after-forward",
        ),
    )

    assert said == {
        "workload": {
            "task": "train",
            "sequence_length": 4096,
            "method": "lora",
            "lora": {"rank": 8, "target_modules": ["q_proj", "v_proj"]},
            "offload": {"optimizer": "cpu"},
            "padding_mask": True,
        },
        "layout": {"zero_stage": 3, "reshard_after_forward": False},
    }


def test_a_word_of_the_other_task_is_refused() -> None:
    """A flag that only serving has is refused in training with the task that has it, and the other
    way round.
    """
    with pytest.raises(
        InvalidRequestError,
        match="--num-sequences is a word of --task serve, and this is --task train",
    ):
        ask(*TRAIN, "--num-sequences", "4")
    with pytest.raises(InvalidRequestError, match="--lora-rank is a word of --task train"):
        ask("llama-2-7b", "--task", "serve", "--lora-rank", "4")


def test_every_second_layer_can_be_said_in_one_word() -> None:
    """``selective:2`` is the contract's object; a bare word and the object itself stay what they
    are.
    """
    said = [
        ask(*TRAIN, "--activation-checkpointing", word)["workload"]
        for word in ("selective:2", "selective", "full")
    ]

    assert [work["activation_checkpointing"] for work in said] == [  # type: ignore[index]  # objects
        {"selective": 2},
        "selective",
        "full",
    ]
    assert "selective:N" in build_parser().format_help()


def test_a_word_may_be_an_object() -> None:
    """What the contract takes as a name or as an object can be given as JSON."""
    said = ask(*TRAIN, "--activation-checkpointing", '{"selective": 2}')

    assert said["workload"] == {
        "task": "train",
        "sequence_length": 4096,
        "activation_checkpointing": {"selective": 2},
    }


def test_a_full_question_satisfies_the_schema() -> None:
    """What the flags make is a request that HTTP would take."""
    options = build_parser().parse_args(
        [*TRAIN, "--gpu", "A100-SXM4-80GB", "--data-parallel", "8", "--precision", "bf16"]
    )
    document = {"model": get_model(options), "gpu": get_gpu(options), **build_workload(options)}

    request = msgspec.convert(document, FitRequest, strict=True)
    assert isinstance(request.workload, TrainRequest)
    assert request.workload.precision == "bf16"


@pytest.mark.parametrize("number", ["many", "1e400x", "0x10", ""])
def test_what_is_no_number_is_refused(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A count that is no number is refused with the flag that took it."""
    with pytest.raises(SystemExit):
        ask(*TRAIN, "--micro-batch-size", number)

    assert "--micro-batch-size" in capsys.readouterr().err


def test_a_model_comes_from_a_name_or_a_file(tmp_path: Path) -> None:
    """Exactly one of both is needed, and the file's content goes into the request."""
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "llama"}')

    assert get_model(build_parser().parse_args(["--config", str(config)])) == {
        "hf_config": {"model_type": "llama"}
    }
    for arguments in ([], ["llama-2-7b", "--config", str(config)]):
        with pytest.raises(InvalidRequestError, match="either a name"):
            get_model(build_parser().parse_args(arguments))


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"{", "not JSON"),
        (b"\xff{}", "not UTF-8"),
        (b"[1]", "JSON object"),
        (b'{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_a_broken_file_is_refused_with_its_fault(
    tmp_path: Path, content: bytes, fault: str
) -> None:
    """What is wrong with a file is said with its name."""
    config = tmp_path / "config.json"
    config.write_bytes(content)

    with pytest.raises(InvalidRequestError, match=f"config.json.*{fault}"):
        get_model(build_parser().parse_args(["--config", str(config)]))


def test_a_gpu_comes_by_name_or_by_memory() -> None:
    """Exactly one of both is needed."""
    assert get_gpu(build_parser().parse_args(["--gpu", "L4"])) == "L4"
    assert get_gpu(build_parser().parse_args(["--gpu-memory", "80Gi"])) == {"memory_bytes": "80Gi"}
    assert get_gpu(build_parser().parse_args(["--gpu-memory", "1000"])) == {"memory_bytes": 1000}
    with pytest.raises(InvalidRequestError, match="either --gpu"):
        get_gpu(build_parser().parse_args([]))


def test_refusals_speak_of_flags() -> None:
    """The dotted path of a field is told as the flag that set it."""
    told = translate_to_flags(
        "workload.lora.rank: expected an integer >= 1; layout.zero_stage is 4"
    )

    assert told == "--lora-rank: expected an integer >= 1; --zero-stage is 4"


def test_equal_numbers_of_layers_are_said_once() -> None:
    """A star repeats; what does not count is refused in words."""
    layout = ask(*TRAIN, "--pipeline-layers", "4*3, 1")["layout"]
    assert layout == {"pipeline_layers": [4, 4, 4, 1]}

    for text in ("4*x", "4*", "4*0"):
        with pytest.raises(UsageError, match="2") as refused:
            ask(*TRAIN, "--pipeline-layers", text)
        assert "invalid" not in refused.value.message


def test_shares_of_gpus_are_numbers() -> None:
    """They were read as words, which no request takes."""
    words = "llama-2-7b --task serve --num-sequences 1 --prompt-tokens 8 --engine llama_cpp"
    document = ask(*words.split(), "--pipeline-parallel", "2", "--tensor-split", "3,1.5")

    assert document["workload"]["tensor_split"] == [3, 1.5]  # type: ignore[index]  # objects
