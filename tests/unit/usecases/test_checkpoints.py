"""A checkpoint's files agree with the model's tree to the byte, or the answer says by how much they
do not.
"""

from collections.abc import Mapping

import pytest

from service.base.errors import InvalidRequestError
from service.catalog.models import load_config, resolve_model
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.quantization.weights import weight_bytes
from service.estimator.values.dtypes import DType
from service.usecases.stored_specs.checkpoints import read_header, read_index
from service.usecases.stored_specs.model_sources import list_warnings, make_content

TINY: dict[str, object] = {
    "model_type": "llama",
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "torch_dtype": "bfloat16",
}
PARAMETERS = 2 * 128 * 64 + 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64) + 64
NF4 = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True}


def warnings(total_bytes: int, **changes: object) -> list[str]:
    """Return what is said of a tiny model whose index has this total."""
    index = {
        "metadata": {"total_size": total_bytes},
        "weight_map": {"lm_head.weight": "model.safetensors"},
    }
    return list_warnings(make_content({"hf_config": TINY | changes}, checkpoint=read_index(index)))


@pytest.mark.parametrize(
    ("name", "quantization", "total_bytes"),
    [
        ("llama-2-7b", None, 13_476_831_232),
        (
            "gpt-oss-20b",
            {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
            13_761_264_768,
        ),
    ],
)
def test_indices_agree_to_the_byte(
    name: str, quantization: Mapping[str, object] | None, total_bytes: int
) -> None:
    """Two bytes for each of Llama-2-7B's 6,738,415,616 parameters; ``total_size`` of
    openai/gpt-oss-20b in mxfp4.
    """
    config = {**load_config(resolve_model(name)), "torch_dtype": "bfloat16"}
    config |= {} if quantization is None else {"quantization_config": quantization}

    content = make_content(
        {"hf_config": config}, checkpoint=read_index({"metadata": {"total_size": total_bytes}})
    )

    assert list_warnings(content) == []


def test_nothing_is_said_where_nothing_was_given() -> None:
    """Without files there is nothing to compare."""
    assert list_warnings(make_content({"hf_config": TINY})) == []


@pytest.mark.parametrize(
    ("difference", "changes", "words"),
    [
        (2 * 128 * 64, {"tie_word_embeddings": True}, "written a second time"),
        (-2 * 128 * 64, {}, "leave out"),
        (2 * 8 * 4, {}, "rotary frequencies"),
        (10, {}, "10 more, which nothing known explains"),
        (-10, {}, "10 fewer, which nothing known explains"),
    ],
)
def test_a_difference_is_explained_or_flagged(
    difference: int, changes: Mapping[str, object], words: str
) -> None:
    """What is known of shared heads and old buffers is said; anything else is left open."""
    tied = 128 * 64 if changes else 0

    (warning,) = warnings(2 * (PARAMETERS - tied) + difference, **changes)

    assert words in warning
    assert f"{2 * (PARAMETERS - tied):,}" in warning


def test_a_config_without_a_dtype_may_be_in_any() -> None:
    """Bytes of 16 or of 32 bits agree; where neither does, the nearer is named."""
    silent = {name: value for name, value in TINY.items() if name != "torch_dtype"}

    said = [
        list_warnings(
            make_content(
                {"hf_config": silent}, checkpoint=read_index({"metadata": {"total_size": total}})
            ),
        )
        for total in (2 * PARAMETERS, 4 * PARAMETERS, 4 * PARAMETERS + 1)
    ]

    assert said[:2] == [[], []]
    assert "in fp32: 1 more" in said[2][0]


def test_states_of_quantised_tensors_are_text() -> None:
    """The state of each of the 14 packed tensors is JSON of a length that no tree can know."""
    model = architecture_from_config(TINY | {"quantization_config": NF4})
    assert model.quantization is not None
    exact = weight_bytes(model, model.quantization, DType.BF16).total

    (warning,) = warnings(exact + 14 * 160, quantization_config=NF4)

    assert warnings(exact, quantization_config=NF4) == []
    assert "states of 14 quantised tensors" in warning


def test_a_header_is_added_up() -> None:
    """Formats and shapes of every tensor; the metadata is none."""
    header = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "BF16", "shape": [3, 5], "data_offsets": [0, 30]},
        "b": {"dtype": "F32", "shape": [], "data_offsets": [30, 34]},
    }

    found = read_header(header)

    assert (found.total_bytes, found.num_tensors) == (34, 2)


@pytest.mark.parametrize(
    ("header", "field"),
    [
        ({"a": 1}, "source.safetensors_header.a"),
        ({"a": {"dtype": "BF17", "shape": [1]}}, "source.safetensors_header.a.dtype"),
        ({"a": {"dtype": "BF16", "shape": [-1]}}, "source.safetensors_header.a.shape"),
        ({"a": {"dtype": "BF16", "shape": "1"}}, "source.safetensors_header.a.shape"),
        ({"a": {"dtype": "BF16", "shape": [2**53] * 300}}, "source.safetensors_header.a.shape"),
    ],
)
def test_a_header_that_is_none_is_refused(header: Mapping[str, object], field: str) -> None:
    """The refusal names the tensor."""
    with pytest.raises(InvalidRequestError) as refusal:
        read_header(header)

    assert refusal.value.extra["errors"] == [{"field": field, "message": refusal.value.detail}]


@pytest.mark.parametrize(
    "index",
    [{}, {"metadata": {}}, {"metadata": {"total_size": "5"}}, {"metadata": {"total_size": True}}],
)
def test_an_index_needs_its_total(index: Mapping[str, object]) -> None:
    """Older indices have none, and nothing is guessed from the names."""
    with pytest.raises(InvalidRequestError, match="number of bytes"):
        read_index(index)


def test_rotary_frequencies_of_llama_are_explained() -> None:
    """Releases of 2023 wrote 64 frequencies for each of Llama-2-7B's 32 layers, in the dtype of the
    weights.
    """
    config = {**load_config(resolve_model("llama-2-7b")), "torch_dtype": "float16"}

    (warning,) = list_warnings(
        make_content(
            {"hf_config": config},
            checkpoint=read_index({"metadata": {"total_size": 13_476_835_328}}),
        ),
    )

    assert "4,096 more, the rotary frequencies" in warning


def test_a_header_names_what_differs_and_is_stored_as_words() -> None:
    """The tensors themselves are not kept, the sentences about them are."""
    header = {"model.layers.9.odd.weight": {"dtype": "BF16", "shape": [5]}}

    content = make_content({"hf_config": TINY}, checkpoint=read_header(header))

    lines = list_warnings(content)
    assert len(lines) == 3
    assert "the files alone have 10 bytes: model.layers.9.odd.weight" in lines[1]
    assert lines[2].startswith(f"the model alone has {2 * PARAMETERS:,} bytes: ")
    assert "tensors" not in content.source["checkpoint"]  # type: ignore[operator]  # a mapping
