"""LitGPT's command: what a question says, in the options of its scripts."""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.models import load_config, resolve_model
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Framework, Lora, Method, TrainWorkload
from service.formats.renderings.job import Launch
from service.formats.renderings.render import make_launch
from tests.unit.formats.renderings.builders import TRAIN, a_job

_PLAIN = replace(TRAIN, framework=Framework.LITGPT, precision=POLICIES["bf16"])


def render(**changes: Any) -> Launch:  # noqa: ANN401 - each field has its own type
    """Return the launch of llama-2-7b on one GPU."""
    workload: TrainWorkload = replace(_PLAIN, **changes)
    return make_launch(a_job(workload, Layout()))


def read_options(launch: Launch) -> dict[str, str]:
    """Return the options of a command by name."""
    words = launch.command[3:]
    return dict(zip(words[::2], words[1::2], strict=True))


def test_full_training_is_a_script_with_its_batch() -> None:
    """The global batch is that of all micro batches of a step."""
    launch = render(micro_batch_size=2, gradient_accumulation_steps=8, sequence_length=512)
    assert launch.command[:2] == ("litgpt", "finetune_full")
    assert read_options(launch) == {
        "--precision": "bf16-true",
        "--optimizer": "AdamW",
        "--train.micro_batch_size": "2",
        "--train.global_batch_size": "16",
        "--train.max_seq_length": "512",
    }


@pytest.mark.parametrize(("double", "scheme"), [(True, "bnb.nf4-dq"), (False, "bnb.nf4")])
def test_packed_weights_and_adapters_are_named(*, double: bool, scheme: str) -> None:
    """Each layer is said, since the script's defaults are query and value alone."""
    options = read_options(
        render(
            method=Method.QLORA,
            double_quantization=double,
            optimizer="paged_adamw",
            lora=Lora(rank=4, targets=("query", "mlp"), dropout=0.1),
        )
    )
    named = [name for name, value in options.items() if value == "true"]
    assert (options["--quantize"], named) == (scheme, ["--lora_query", "--lora_mlp"])
    assert (options["--lora_r"], options["--lora_dropout"]) == ("4", "0.1")
    assert options["--optimizer"] == "bitsandbytes.optim.PagedAdamW"


@pytest.mark.parametrize(("double", "scheme"), [(True, "bnb.nf4-dq"), (False, "bnb.nf4")])
def test_weights_that_the_config_packs_are_named(*, double: bool, scheme: str) -> None:
    """LitGPT packs what the option says, whatever the checkpoint's config does."""
    config: dict[str, object] = dict(load_config(resolve_model("llama-2-7b"))) | {
        "quantization_config": {
            "quant_method": "bitsandbytes",
            "load_in_4bit": True,
            "bnb_4bit_quant_type": "nf4",
            "bnb_4bit_use_double_quant": double,
        }
    }
    workload = replace(_PLAIN, method=Method.PEFT, peft="adapter", optimizer="paged_adamw")

    job = replace(a_job(workload, Layout()), model=architecture_from_config(config))

    assert read_options(make_launch(job))["--quantize"] == scheme


def test_an_optimizer_beside_packed_weights_is_told() -> None:
    """LitGPT has one for them, whatever is asked."""
    launch = render(method=Method.QLORA, optimizer="adamw", lora=Lora(rank=4))

    assert launch.notes == ("LitGPT steps packed models by paged_adamw, not adamw",)


@pytest.mark.parametrize("kind", ["adapter", "adapter_v2"])
def test_each_adapter_has_its_script(kind: str) -> None:
    """The second kind is a script of its own."""
    assert render(method=Method.PEFT, peft=kind).command[1] == f"finetune_{kind}"


def test_an_optimizer_with_arguments_is_left_to_a_file() -> None:
    """SGD's momentum is no option of the command."""
    launch = render(optimizer="sgd_momentum")
    assert "--optimizer" not in read_options(launch)
    assert launch.notes == (
        "sgd_momentum needs a class_path and its init_args in a file for --config",
    )
