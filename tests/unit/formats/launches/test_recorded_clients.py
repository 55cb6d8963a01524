"""Recorded runs of real clients, asked about by their own arguments."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from service.cli.offline.inline import resolve_offline_model
from service.contract.schemas.fit import FitRequest
from service.contract.schemas.imports.launches import LaunchImportRequest
from service.contract.to_question.fits import read_fit
from service.contract.to_question.launches import read_launch_request
from service.contract.to_question.validation_errors import decode
from service.estimator.values.losses import Loss
from service.estimator.values.workload import TrainWorkload
from service.usecases.questions.fit import FitQuestion
from tests.accuracy.real.rows import ClientRun, list_client_runs
from tests.accuracy.real.words import write_body

GPU = "H100-SXM5-80GB"
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "nf4": "bfloat16"}
NF4 = {
    "load_in_4bit": True,
    "bnb_4bit_quant_type": "nf4",
    "bnb_4bit_use_double_quant": True,
    "bnb_4bit_compute_dtype": "bfloat16",
}
LAUNCHERS = {"trainer": "trainer", "sft": "trl_sft", "gen": "generate"}
ANSWERS = {"gpu", "workload.sequence_length"}


@pytest.mark.parametrize("run", list_client_runs(), ids=lambda run: run.name)
def test_a_script_asks_what_its_author_would(run: ClientRun) -> None:
    """Its arguments, as the recording script gave them, make the question that was asked in our
    words.
    """
    asked = _ask_by_arguments(run)

    assert _strip(asked) == _strip(_read(write_body(run, GPU)))


def _ask_by_arguments(run: ClientRun) -> FitQuestion:
    request = decode(_write_request(run), LaunchImportRequest)
    question = read_launch_request(request, resolve_offline_model)
    assert question.missing == ()
    assert question.refusal is None
    assert question.imported.ignored == ()
    return _read(question.document)


def _read(document: Mapping[str, object]) -> FitQuestion:
    request = decode(document, FitRequest)
    return read_fit(request, resolve_offline_model(request.model))


def _strip(question: FitQuestion) -> object:
    """Return what the answer is made of: assumptions say where it came from.

    ``chunked_nll`` is TRL's older name of ``nll``.
    """
    workload = question.workload
    if isinstance(workload, TrainWorkload) and workload.loss is Loss.CHUNKED_NLL:
        workload = replace(workload, loss=Loss.NLL)
    return (question.architecture, workload, question.layout, question.device)


def _write_request(run: ClientRun) -> dict[str, Any]:
    write = _write_generation if run.kind == "gen" else _write_training
    return {
        "launcher": LAUNCHERS[run.kind],
        "arguments": write(run.arguments, trl=run.kind == "sft"),
        "model": run.model,
        "gpu": GPU,
    }


def _write_generation(arguments: Mapping[str, Any], *, trl: bool) -> dict[str, Any]:
    del trl
    return {
        "batch": arguments["batch"],
        "prompt_tokens": arguments["prompt"],
        "max_new_tokens": arguments["new"],
        "min_new_tokens": arguments["new"],
        "do_sample": False,
        "pad_token_id": 0,
        "model_kwargs": _write_model(arguments),
    }


def _write_training(arguments: Mapping[str, Any], *, trl: bool) -> dict[str, Any]:
    written: dict[str, Any] = {
        "output_dir": "out",
        "per_device_train_batch_size": arguments["batch"],
        "gradient_accumulation_steps": arguments.get("accum", 1),
        "max_steps": 5,
        "bf16": arguments.get("bf16", False),
        "fp16": arguments.get("fp16", False),
        "optim": arguments["optim"],
        "gradient_checkpointing": arguments.get("gc", False),
        "report_to": [],
        "save_strategy": "no",
        "logging_steps": 1,
        "dataloader_num_workers": 0,
        "disable_tqdm": True,
        "use_liger_kernel": arguments.get("liger", False),
        "torch_compile": arguments.get("compile", False),
        "max_length" if trl else "sequence_length": arguments["seq"],
        "model_kwargs": _write_model(arguments),
    }
    if "target" in arguments:
        written["max_target_length"] = arguments["target"]
    if "lora" in arguments:
        written["peft"] = {
            "r": arguments["lora"],
            "lora_alpha": 2 * arguments["lora"],
            "target_modules": arguments["targets"],
            "task_type": "CAUSAL_LM",
        }
    return written


def _write_model(arguments: Mapping[str, Any]) -> dict[str, Any]:
    model: dict[str, Any] = {"dtype": DTYPES[arguments["load"]], "device_map": {"": 0}}
    return model | ({"quantization_config": NF4} if arguments["load"] == "nf4" else {})
