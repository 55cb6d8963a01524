"""Axolotl's files, as the trainers that they stand for."""

from pathlib import Path
from typing import Any

import pytest

from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from tests.unit.formats.launches.importing import get_part, import_launch

FILES = Path(__file__).parent / "files"
QLORA = (FILES / "axolotl_qlora_1b.yaml").read_text(encoding="utf-8")
LIGER = (
    "- axolotl.integrations.liger.LigerPlugin\nliger_rope: true\nliger_rms_norm: true\n"
    "liger_fused_linear_cross_entropy: true\n"
)
BASE = "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 2\n"


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        (
            "qlora_1b",
            {"method": "qlora", "sequence_length": 2048, "packing": "packed", "attention": "flash"},
        ),
        (
            "fft_8b",
            {"method": "full", "precision": "bf16_autocast", "optimizer": "paged_adamw_8bit"},
        ),
        ("lora_1b", {"method": "lora", "micro_batch_size": 2, "gradient_accumulation_steps": 2}),
        ("qlora_fsdp_70b", {"method": "qlora", "reentrant_checkpointing": True}),
        (
            "instruct_dpo_lora_8b",
            {"trainer": "dpo", "quantization_bits": 8, "loss": "selective"},
        ),
        ("reward_model", {"trainer": "reward"}),
        ("fft_8b_liger_fsdp", {"kernels": "liger", "method": "full"}),
    ],
)
def test_examples_ask_what_they_run(name: str, fields: dict[str, Any]) -> None:
    """Each is found out to be axolotl's, and its workload has the fields that it says."""
    file = FILES / f"axolotl_{name}.yaml"

    imported = import_launch({file.name: file.read_text(encoding="utf-8")})

    assert imported.launcher is Launcher.AXOLOTL
    workload = get_part(imported, "workload")
    assert {field: workload.get(field) for field in fields} == fields


def test_qlora_asks_what_its_trainers_arguments_ask() -> None:
    """Axolotl is a front of Trainer, PEFT and bitsandbytes: their arguments are the same step."""
    by_arguments = import_launch(
        arguments={
            "model": "NousResearch/Llama-3.2-1B",
            "max_length": 2048,
            "per_device_train_batch_size": 2,
            "per_device_eval_batch_size": 2,
            "eval_strategy": "steps",
            "gradient_accumulation_steps": 4,
            "optim": "adamw_bnb_8bit",
            "bf16": True,
            "gradient_checkpointing": True,
            "gradient_checkpointing_kwargs": {"use_reentrant": True},
            "prepare_model_for_kbit_training": False,
            "peft": {
                "r": 32,
                "lora_dropout": 0.05,
                "target_modules": [
                    *("gate_proj", "down_proj", "up_proj"),
                    *("q_proj", "v_proj", "k_proj", "o_proj"),
                ],
            },
            "model_kwargs": {
                "dtype": "bfloat16",
                "attn_implementation": "flash_attention_2",
                "quantization_config": {"load_in_4bit": True, "bnb_4bit_use_double_quant": True},
            },
        },
        launcher=Launcher.TRAINER,
    )

    imported = import_launch({"qlora.yml": QLORA})

    packed = get_part(by_arguments, "workload") | {"packing": "packed"}
    packed["lora"] |= {"kernels": ["qkv", "o", "mlp"]}
    assert get_part(imported, "workload") == packed
    assert imported.question["model"] == by_arguments.question["model"]


def test_axolotls_own_defaults_are_named() -> None:
    """Nothing is recomputed, one sequence of 512 tokens is run, in bf16 where the GPU has it."""
    imported = import_launch({"a.yml": "base_model: m\nval_set_size: 0\n"})

    workload = get_part(imported, "workload")
    assert (workload["sequence_length"], workload["micro_batch_size"]) == (512, 1)
    assert workload["activation_checkpointing"] == "none"
    assert workload["precision"] == "bf16_autocast"
    assert "workload.sequence_length" in imported.open_fields


def test_fsdp_of_no_version_is_the_first() -> None:
    """Axolotl pins version 1 where transformers would take 2."""
    imported = import_launch(
        {"a.yml": f"{BASE}fsdp_config:\n  offload_params: true\n"},
        "axolotl train a.yml --num_epochs 1",
    )

    assert get_part(imported, "layout")["sharding"] == "fsdp1"
    assert get_part(imported, "workload")["offload"]["parameters"] == "cpu"


def test_kto_of_adapters_has_the_model_without_them_as_reference() -> None:
    """TRL's trainer is handed no second model, and axolotl loads none."""
    lines = "rl: kto\nadapter: lora\nlora_r: 8\nlora_target_linear: true\n"

    workload = get_part(import_launch({"a.yml": BASE + lines}), "workload")

    assert (workload["trainer"], workload["reference"]) == ("kto", "adapters_off")


@pytest.mark.parametrize(
    ("lines", "trainer"),
    [
        ("rl: orpo\norpo_alpha: 0.1\n", "orpo"),
        ("rl: simpo\nsimpo_gamma: 0.5\n", "cpo"),
        ("rl: simpo\ncpo_alpha: 0\n", "simpo"),
    ],
)
def test_pairs_without_a_reference_are_trl_1_8s(lines: str, trainer: str) -> None:
    """SimPO keeps the loss of the chosen sequences unless ``cpo_alpha`` is 0, which is 1 there."""
    workload = get_part(import_launch({"a.yml": BASE + lines}), "workload")

    assert (workload["trainer"], workload["loss"]) == (trainer, "selective")
    assert "reference" not in workload


def test_what_may_change_the_model_or_its_scores_is_named() -> None:
    """Overrides of the config, a compiler of gathers, and Liger's loss where there is a choice."""
    lines = "overrides_of_model_config:\n  rope_theta: 1\ndeepcompile: true\n"
    liger = "dpo_use_liger_kernel: true\n"

    plain = import_launch({"a.yml": BASE + lines + liger})
    paired = import_launch({"a.yml": f"{BASE}{lines}{liger}rl: dpo\n"})

    named = ["deepcompile", "overrides_of_model_config"]
    assert [one.split(".")[0].split(":")[0] for one in sorted(plain.ignored)] == named
    assert "dpo_use_liger_kernel" in plain.without_effect
    assert any(one.startswith("dpo_use_liger_kernel") for one in paired.ignored)


def test_deepspeed_configurations_that_axolotl_ships_are_known() -> None:
    """A path under ``deepspeed_configs`` is read by its name."""
    imported = import_launch(
        {"a.yml": f"{BASE}deepspeed: deepspeed_configs/zero3_bf16_cpuoffload_params.json\n"},
        "accelerate launch --num_processes 8 -m axolotl.cli.train a.yml",
    )

    layout = get_part(imported, "layout")
    assert (layout["zero_stage"], layout["data_parallel"]) == (3, 8)
    assert get_part(imported, "workload")["offload"] == {"parameters": "cpu"}


@pytest.mark.parametrize(
    ("lines", "refusal"),
    [
        ("load_in_4bit: true", "a.yml:4: load_in_4bit is True; expected false without an adapter"),
        ("adapter: qlora", "a.yml:4: adapter is 'qlora'; expected lora, or load_in_4bit: true"),
        ("adapter: vera", "a.yml:4: adapter is 'vera'; expected one of lora, qlora"),
        ("rl: grpo", "a.yml:4: rl is 'grpo'; expected one of dpo, ipo, kto, orpo, simpo"),
        ("rl: kto", "a.yml:4: rl is 'kto'; .* three models have no term"),
        ("gradient_accumulation_steps: many", "a.yml:4: .*'many'; expected a whole number"),
        ("batch_size: 8\ngradient_accumulation_steps: 2", "a.yml:4: batch_size is 8; expected no"),
        (
            "attn_implementation: sdpa\nflash_attention: true",
            "a.yml:5: flash_attention is True; expected no value beside attn_implementation sdpa",
        ),
        ("activation_offloading: true", "a.yml:4: activation_offloading .* gradient_checkpointing"),
    ],
)
def test_bad_values_are_refused_where_they_stand(lines: str, refusal: str) -> None:
    """The refusal names file and line, and what would be right."""
    with pytest.raises(LaunchFormatError, match=refusal):
        import_launch({"a.yml": f"{BASE}{lines}\n"})


def test_a_file_that_the_command_names_has_to_be_handed_in() -> None:
    """Nothing is read from disk: the file travels with the command."""
    with pytest.raises(LaunchFormatError, match=r"config is .b\.yml.; expected a file that was"):
        import_launch({"a.yml": BASE}, "axolotl train b.yml")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (
            r"model.language_model.layers.[\d]+.(mlp|self_attn).(up|down|q)_proj",
            ["down_proj", "q_proj", "up_proj"],
        ),
        (r"(a\.\d+\.(mlp\.(gate|up)_proj|self_attn\.(?:k|v)_proj))", None),
        (r".*\.q_proj", ["q_proj"]),
        (r"layers\.(?!0)\d+\.q_proj", []),
        ("(a|b){3}.c" + "(a|b)" * 9, []),
        ("(unclosed", []),
    ],
)
def test_a_pattern_of_layers_is_the_layers_it_names(pattern: str, names: object) -> None:
    """PEFT takes a text as a pattern; it was a list of one name that no layer has."""
    text = f"{BASE}adapter: lora\nlora_target_modules: '{pattern}'\n"

    imported = import_launch({"a.yml": text})

    lora = get_part(imported, "workload")["lora"]
    expected = ["gate_proj", "k_proj", "up_proj", "v_proj"] if names is None else names
    assert lora.get("target_modules", []) == expected
    is_asked = "workload.lora.target_modules" in {one.field for one in imported.questions}
    assert is_asked == (not expected)


def test_a_batch_size_accumulates_no_steps() -> None:
    """Axolotl's schema fills in 1 before it would be divided."""
    imported = import_launch({"a.yml": BASE + "batch_size: 8\n"})

    assert get_part(imported, "workload")["gradient_accumulation_steps"] == 1


@pytest.mark.parametrize(
    ("added", "loss", "ignored"),
    [
        ("", "fused_linear", ()),
        ("cut_cross_entropy: false\n", None, ()),
        ("rl: dpo\n", "selective", ("plugins",)),
        (LIGER, None, ()),
    ],
)
def test_cut_cross_entropy_holds_no_logits(
    added: str, loss: str | None, ignored: tuple[str, ...]
) -> None:
    """Liger's loss counts for it, which takes no less, but of preferences and beside Liger's."""
    plugins = "plugins:\n- axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n"

    imported = import_launch({"a.yaml": f"{BASE}{plugins}{added}"})

    assert get_part(imported, "workload").get("loss") == loss
    assert imported.ignored == ignored


def test_a_group_of_a_pattern_can_be_missing() -> None:
    """Layers of its examples may stand within another module, ``examples/gemma4``."""
    pattern = r"model.layers.[\d]+.(_checkpoint_wrapped_module.)?(mlp|self_attn).(up|q)_proj"
    adapters = f"adapter: lora\nlora_target_modules: '{pattern}'\n"

    imported = import_launch({"a.yml": BASE + adapters})

    assert get_part(imported, "workload")["lora"]["target_modules"] == ["q_proj", "up_proj"]
