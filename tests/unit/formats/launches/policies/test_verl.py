"""Configurations of verl: Hydra's overrides and YAML, and the edges that its authors ran."""

from typing import Any

import pytest

from service.cli.offline.inline import resolve_offline_model
from service.contract.schemas.fit import FitRequest
from service.contract.to_question.fits import read_fit
from service.contract.to_question.validation_errors import decode
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import ImportedLaunch, Launcher
from service.planner.fit.evaluator import make_evaluator
from tests.unit.formats.launches.asking import ask
from tests.unit.formats.launches.importing import get_part, import_launch

_PROGRAM = "python3 -m verl.trainer.main_ppo"
_GRPO = (
    "algorithm.adv_estimator=grpo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B "
    "actor_rollout_ref.rollout.name=vllm data.max_prompt_length=1024 "
    "data.max_response_length=1024 trainer.n_gpus_per_node=8"
)
_MICRO = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16"
_YAML = """\
algorithm: {adv_estimator: rloo}
data: {max_prompt_length: 512, max_response_length: 2048}
actor_rollout_ref:
  model: {path: Qwen/Qwen2.5-7B, use_remove_padding: true}
  actor:
    strategy: fsdp2
    ppo_micro_batch_size_per_gpu: 4
    ppo_mini_batch_size: 64
    fsdp_config: {model_dtype: bf16, param_offload: true, fsdp_size: 4}
    use_fused_kernels: ${oc.select:actor_rollout_ref.model.use_fused_kernels,false}
  rollout: {name: sglang, n: 8, free_cache_engine: false, gpu_memory_utilization: 0.4}
trainer: {nnodes: 2, n_gpus_per_node: 8}
"""


def _import(*overrides: str) -> ImportedLaunch:
    return import_launch(command=" ".join((_PROGRAM, _GRPO, *overrides)))


def _get_rollout(imported: ImportedLaunch) -> dict[str, Any]:
    rollout = get_part(imported, "workload")["rollout"]
    assert isinstance(rollout, dict)
    return rollout


def test_overrides_are_the_question() -> None:
    """A micro batch is of sequences without padding, and its loss is over whole logits."""
    imported = _import(_MICRO)

    workload = get_part(imported, "workload")
    assert imported.launcher is Launcher.VERL
    assert (workload["trainer"], workload["loss"]) == ("grpo", "flash_cross_entropy")
    assert (workload["sequence_length"], workload["completion_length"]) == (2048, 1024)
    assert (workload["micro_batch_size"], workload["packing"]) == (16, "padding_free")
    assert workload["gradient_accumulation_steps"] == 256 // 8 // 16
    assert workload["activation_checkpointing"] == "full"
    assert get_part(imported, "layout") == {
        "data_parallel": 8,
        "sharding": "fsdp1",
        "zero_stage": 3,
        "reshard_after_forward": True,
    }


def test_its_engine_sleeps_in_processes_of_its_own() -> None:
    """Defaults are verl's: half of the card, two GPUs, level 2, a bucket of 2 GiB."""
    rollout = _get_rollout(_import(_MICRO))

    assert rollout == {
        "engine": "vllm",
        "own_process": True,
        "gpu_memory_fraction": 0.5,
        "tensor_parallel": 2,
        "sleep_level": 2,
        "weight_dtype": "bf16",
        "max_model_len": 2048,
        "max_num_batched_tokens": 8192,
        "max_num_sequences": 256,
        "enforce_eager": False,
        "bucket_bytes": 2**31,
        "offload_parameters": False,
        "offload_optimizer": False,
    }


def test_adapters_leave_the_engines_weights_on_the_host() -> None:
    """Only adapters are sent again; the reference is the policy without them."""
    imported = _import(
        _MICRO,
        "actor_rollout_ref.model.lora_rank=32",
        "actor_rollout_ref.model.target_modules=[q_proj,'v_proj']",
        "actor_rollout_ref.actor.use_kl_loss=True",
    )

    workload = get_part(imported, "workload")
    assert workload["lora"] == {
        "rank": 32,
        "target_modules": ["q_proj", "v_proj"],
        "dtype": "fp32",
    }
    assert workload["reference"] == "adapters_off"
    assert _get_rollout(imported)["sleep_level"] == 1


def test_a_budget_of_tokens_is_the_micro_batch() -> None:
    """Whatever sequences fill it; scores may have another."""
    imported = _import(
        "actor_rollout_ref.actor.use_dynamic_bsz=True",
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=24576",
        "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=49152",
    )

    workload = get_part(imported, "workload")
    assert (workload["sequence_length"], workload["micro_batch_size"]) == (24576, 1)
    assert workload["log_prob_batch_size"] == 2


def test_a_yaml_is_read_as_its_overrides_are() -> None:
    """Interpolations are of what is there as well."""
    imported = import_launch({"ppo.yaml": _YAML})

    workload, layout = get_part(imported, "workload"), get_part(imported, "layout")
    assert imported.launcher is Launcher.VERL
    assert (layout["data_parallel"], layout["sharding"], layout["shard_size"]) == (16, "fsdp2", 4)
    assert workload["precision"]["param_dtype"] == "bf16"
    assert workload["gradient_accumulation_steps"] == 64 * 8 // 16 // 4
    rollout = _get_rollout(imported)
    assert (rollout["engine"], rollout["sleep_level"]) == ("sglang", 0)
    assert rollout["offload_parameters"]
    assert imported.ignored == ()


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("actor_rollout_ref.actor.strategy=megatron", "on Megatron-LM has no term"),
        ("actor_rollout_ref.rollout.name=trtllm", "expected one of vllm, sglang"),
        ("actor_rollout_ref.actor.ulysses_sequence_parallel_size=3", "a divisor of the 8 GPUs"),
        ("--config-name=ppo_megatron_trainer.yaml", "on Megatron-LM has no term"),
    ],
)
def test_what_has_no_term_is_refused(override: str, words: str) -> None:
    """With what has one."""
    with pytest.raises(LaunchFormatError, match=words):
        _import(_MICRO, override)


def test_every_key_is_accounted_for() -> None:
    """What decides nothing is without effect, and what has no term is ignored with its reason."""
    imported = _import(
        _MICRO,
        "data.train_files=train.parquet",
        "actor_rollout_ref.actor.optim.lr=1e-6",
        "+actor_rollout_ref.model.use_liger=True",
        "actor_rollout_ref.rollout.expert_parallel_size=2",
        "actor_rollout_ref.nonsense=1",
    )

    assert {"data.train_files", "actor_rollout_ref.actor.optim.lr"} <= set(imported.without_effect)
    assert set(imported.ignored) == {
        "actor_rollout_ref.model.use_liger",
        "actor_rollout_ref.rollout.expert_parallel_size",
        "actor_rollout_ref.nonsense",
    }
    assert len(imported.warnings) == 2


_FULL = (
    "actor_rollout_ref.actor.fsdp_config.param_offload=True "
    "actor_rollout_ref.actor.fsdp_config.optimizer_offload=True "
    "actor_rollout_ref.actor.use_kl_loss=True actor_rollout_ref.rollout.n=5"
)
_LORA = f"{_FULL} actor_rollout_ref.model.lora_rank=32 actor_rollout_ref.actor.entropy_coeff=0.001"


@pytest.mark.parametrize(
    ("model", "gpus", "fraction", "ranks", "overrides"),
    [
        ("qwen2.5-0.5b", 1, 0.1, 1, _LORA),
        ("qwen2.5-3b", 1, 0.1, 1, _LORA),
        ("qwen2.5-7b", 2, 0.6, 2, _FULL),
        ("qwen2.5-14b", 4, 0.5, 4, _FULL),
        ("qwen2.5-72b", 32, 0.6, 16, _FULL),
    ],
)
def test_edges_that_verls_authors_ran_are_not_refused(
    model: str, gpus: int, fraction: float, ranks: int, overrides: str
) -> None:
    """Phases that no batch decides fit on 80 GB cards, by the words of their scripts.

    (verl ``docs/perf/device_tuning.rst`` and ``examples/tuning``. Its batches are of GSM8K, whose
    sequences are shorter than the longest that its scripts allow.)
    """
    nodes = max(1, gpus // 8)
    question = ask(
        model=model,
        gpu="H100-SXM5-80GB",
        command=f"{_PROGRAM} {_GRPO} {_MICRO} {overrides} trainer.nnodes={nodes} "
        f"trainer.n_gpus_per_node={gpus // nodes} "
        f"actor_rollout_ref.rollout.gpu_memory_utilization={fraction} "
        f"actor_rollout_ref.rollout.tensor_model_parallel_size={ranks} "
        "actor_rollout_ref.rollout.max_model_len=1536 "
        "actor_rollout_ref.rollout.max_num_batched_tokens=1536",
    )
    request = decode(question.document, FitRequest)
    fit = read_fit(request, resolve_offline_model(request.model))
    evaluator = make_evaluator(fit.architecture, fit.device)
    answer = evaluator.answer(fit.workload, fit.layout)

    instants = {instant.name: instant.allocated_bytes for instant in answer.instants}
    outside = sum(
        part.bytes
        for part in answer.components
        if part.name in {"engine_other", "device_context", "library_workspaces"}
    )
    fixed = max(instants[name] for name in ("weight_sync", "rollout", "optimizer_step"))
    assert fixed + outside < fit.device.usable_bytes
    assert answer.rollout is not None
    assert answer.rollout.smallest_bytes is not None
    assert answer.rollout.smallest_bytes <= answer.rollout.budget_bytes
