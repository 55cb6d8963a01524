"""Refusal of verl's trainers on Megatron-LM, with commands in their place.

verl 0.9, ``verl/trainer/config/_generated_ppo_megatron_trainer.yaml``.
"""

from service.formats.launches.policies.verl_settings import ACTOR, MODEL, ROLLOUT, take
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings, is_unset

_WORD = "megatron"
_OF_ACTOR = f"{ACTOR}.megatron"
_DEGREES = {
    "tensor-parallel": "tensor_model_parallel_size",
    "pipeline-parallel": "pipeline_model_parallel_size",
    "context-parallel": "context_parallel_size",
    "virtual-pipeline-stages": "virtual_pipeline_model_parallel_size",
    "expert-parallel": "expert_model_parallel_size",
    "expert-tensor-parallel": "expert_tensor_parallel_size",
}
"""Options of ours by the trainer's degrees."""
_OF_COPY = ("tensor-parallel", "pipeline-parallel", "context-parallel")
"""Degrees whose product are the GPUs of one copy of the model."""
_GRANULARITY = f"{_OF_ACTOR}.override_transformer_config.recompute_granularity"


def refuse_megatron(settings: Settings, strategy: Setting) -> None:
    """Refuse a trainer on Megatron-LM, whose phases have no term.

    Raises LaunchFormatError with the commands that ask of its parts.
    """
    if str(strategy.value) != _WORD:
        return
    model = settings.peek(f"{MODEL}.path")
    name = "MODEL" if model is None else str(model.value)
    update = f"fit {name} --task train {_list_options(settings)}"
    engine = f"fit {name} --task serve {_list_engine(settings)}"
    message = (
        "a policy's trainer on Megatron-LM has no term; actor.strategy fsdp and fsdp2 have "
        f"({strategy.key} is {strategy.value}). Ask of its parts: the update by `{update}`, the "
        f"engine by `{engine}`. Beside the update stay {_list_beside(settings)}; beside the engine "
        "the trainer's weights and states, unless param_offload and optimizer_offload move them"
    )
    raise LaunchFormatError(message, where=strategy.where)


def _list_options(settings: Settings) -> str:
    """Return options of an update as a training of Megatron-LM."""
    degrees = {
        option: setting.as_int(minimum=1)
        for option, name in _DEGREES.items()
        if (setting := settings.peek(f"{_OF_ACTOR}.{name}")) is not None and not is_unset(setting)
    }
    options = [
        "--framework megatron",
        "--sharding megatron",
        *(f"--{name} {count}" for name, count in degrees.items()),
    ]
    copy = 1
    for name in _OF_COPY:
        copy *= degrees.get(name, 1)
    gpus = _take_int(settings, "trainer.nnodes", 1) * _take_int(
        settings, "trainer.n_gpus_per_node", 8
    )
    if gpus % copy == 0:
        options.append(f"--data-parallel {gpus // copy}")
    options += ["--zero-stage 1", "--precision megatron_bf16", *_list_batch(settings)]
    granularity = settings.peek(_GRANULARITY)
    if granularity is not None and not is_unset(granularity):
        options.append(f"--activation-checkpointing {granularity.value}")
    return " ".join(options)


def _list_batch(settings: Settings) -> list[str]:
    """Return the options of a micro batch, of sequences or of tokens."""
    longest = _get_longest(settings)
    if take(settings, f"{ACTOR}.use_dynamic_bsz", value=False).as_bool():
        budget = _take_int(settings, f"{ACTOR}.ppo_max_token_len_per_gpu", 16384)
        return [f"--sequence-length {max(longest, budget)}", "--micro-batch-size 1"]
    micro = settings.peek(f"{ACTOR}.ppo_micro_batch_size_per_gpu")
    batch = [] if micro is None or is_unset(micro) else [f"--micro-batch-size {micro.value}"]
    return [f"--sequence-length {longest}", *batch]


def _list_engine(settings: Settings) -> str:
    """Return the options that ask of the engine alone."""
    engine = settings.peek(f"{ROLLOUT}.name")
    share = take(settings, f"{ROLLOUT}.gpu_memory_utilization", 0.5).as_float()
    return " ".join(
        (
            f"--engine {'vllm' if engine is None else engine.value}",
            f"--tensor-parallel {_take_int(settings, f'{ROLLOUT}.tensor_model_parallel_size', 2)}",
            f"--gpu-memory-fraction {share:g}",
            f"--max-model-len {_get_longest(settings)}",
        )
    )


def _list_beside(settings: Settings) -> str:
    """Return what is on the GPU beside an update."""
    names = (f"{ACTOR}.use_kl_loss", "algorithm.use_kl_in_reward")
    refers = any(take(settings, name, value=False).as_bool() for name in names)
    reference = "the reference's weights and " if refers else ""
    return f"{reference}the context of an engine that sleeps"


def _get_longest(settings: Settings) -> int:
    lengths = (f"data.max_{part}_length" for part in ("prompt", "response"))
    return sum(_take_int(settings, name, 512) for name in lengths)


def _take_int(settings: Settings, name: str, value: int) -> int:
    return take(settings, name, value).as_int(minimum=1)
