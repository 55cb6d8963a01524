"""Which tensors differ: files of transformers' own models agree, and each change is named."""

import pytest

from service.estimator.model.families.registry import architecture_from_config
from service.formats.checkpoints.tensor_differences import FileTensor, list_tensor_differences
from tests.tiny_models import tiny_config

MODEL = architecture_from_config({"model_type": "mixtral", **tiny_config("mixtral")})
LAYER = {
    "input_layernorm.weight": (128,),
    "post_attention_layernorm.weight": (128,),
    "self_attn.q_proj.weight": (128, 128),
    "self_attn.k_proj.weight": (64, 128),
    "self_attn.v_proj.weight": (64, 128),
    "self_attn.o_proj.weight": (128, 128),
    "block_sparse_moe.gate.weight": (4, 128),
    **{
        f"block_sparse_moe.experts.{expert}.{name}.weight": shape
        for expert in range(4)
        for name, shape in (("w1", (256, 128)), ("w2", (128, 256)), ("w3", (256, 128)))
    },
}
FILES = {
    "model.embed_tokens.weight": (1000, 128),
    "model.norm.weight": (128,),
    "lm_head.weight": (1000, 128),
    **{
        f"model.layers.{layer}.{name}": shape for layer in range(3) for name, shape in LAYER.items()
    },
}
STACKS = {name: shape for name, shape in FILES.items() if ".experts." not in name} | {
    f"model.layers.{layer}.mlp.experts.{name}": shape
    for layer in range(3)
    for name, shape in (("gate_up_proj", (4, 512, 128)), ("down_proj", (4, 128, 256)))
}


def compare(files: dict[str, tuple[int, ...]], **formats: int) -> list[str]:
    """Return the differences of bf16 files; ``formats`` are bytes of single tensors' elements."""
    tensors = [
        FileTensor(
            name=name,
            dtype="F32" if formats.get(name) else "BF16",
            shape=shape,
            element_bytes=formats.get(name, 2),
        )
        for name, shape in files.items()
    ]
    return list(list_tensor_differences(MODEL, tensors, 2))


@pytest.mark.parametrize("files", [FILES, STACKS])
def test_experts_one_by_one_and_in_stacks_agree(files: dict[str, tuple[int, ...]]) -> None:
    """Both ways of writing them are the same tree."""
    assert compare(files) == []


def test_a_tensor_of_the_files_alone_is_named() -> None:
    """A layer that predicts further tokens, and a tensor that a layer has too many."""
    found = compare(
        FILES
        | {"model.layers.3.eh_proj.weight": (128, 256), "model.layers.1.self_attn.extra": (128,)}
    )

    line = (
        "the files alone have 65,792 bytes: model.layers.1.self_attn.extra (BF16 [128], 256 "
        "bytes), model.layers.3.eh_proj.weight (BF16 [128, 256], 65,536 bytes)"
    )
    assert found == [line]


def test_a_tensor_of_the_model_alone_is_named() -> None:
    """It says in which layer it is missing, and how much that is."""
    files = {
        name: shape
        for name, shape in FILES.items()
        if name not in {"model.layers.2.self_attn.o_proj.weight", "lm_head.weight"}
    }

    (line,) = compare(files)

    assert line.startswith("the model alone has 288,768 bytes: ")
    assert "lm_head.weight (128,000 elements)" in line
    assert "layer 2 self_attn.o_proj.weight (16,384 elements)" in line


def test_another_number_format_is_named() -> None:
    """A router in fp32 has two bytes more of each element."""
    name = "model.layers.0.block_sparse_moe.gate.weight"

    (line,) = compare(FILES, **{name: 4})

    assert line.startswith("in another number format than the config states, 1,024 bytes more: ")
    assert line.endswith(f"{name} (F32 [4, 128], 2,048 bytes)")


def test_many_names_are_counted() -> None:
    """Four are named."""
    (line,) = compare(FILES | {f"extra.{index}": (7,) for index in range(9)})

    assert line.endswith("extra.3 (BF16 [7], 14 bytes) and 5 more")
