"""Rollout of verl: an engine that shares the trainer's GPUs."""

from service.formats.launches.policies.verl_settings import DTYPES, FSDP, ROLLOUT, VerlTrainer

_ENGINES = {"vllm": "vllm", "sglang": "sglang"}
_MIB = 2**20


def read_rollout(trainer: VerlTrainer) -> None:
    """Set the engine, its share and what it gives back."""
    draft, field = trainer.draft, "workload.rollout"
    hybrid = trainer.take("actor_rollout_ref.hybrid_engine", value=True)
    nodes = trainer.take(f"{ROLLOUT}.nnodes", 0)
    if not hybrid.as_bool() or nodes.as_int():
        draft.note(nodes, "the engine has GPUs of its own, which is a question of its own")
        draft.note(hybrid, "whether engine and trainer share GPUs")
        return
    engine = trainer.settings.take(f"{ROLLOUT}.name")
    if engine is None:
        draft.ask(f"{field}.engine", "rollout.name is not said", ("vllm", "sglang"))
    else:
        draft.put(f"{field}.engine", engine.as_choice(_ENGINES), engine)
    draft.put(f"{field}.own_process", value=True)
    share = trainer.take(f"{ROLLOUT}.gpu_memory_utilization", 0.5)
    draft.put(f"{field}.gpu_memory_fraction", share.as_float(), share)
    ranks = trainer.take(f"{ROLLOUT}.tensor_model_parallel_size", 2)
    draft.put(f"{field}.tensor_parallel", ranks.as_int(minimum=1), ranks)
    frees = trainer.take(f"{ROLLOUT}.free_cache_engine", value=True)
    asleep = 1 if trainer.adapts else 2
    draft.put(f"{field}.sleep_level", asleep if frees.as_bool() else 0, frees)
    dtype = trainer.take(f"{ROLLOUT}.dtype", "bfloat16")
    draft.put(f"{field}.weight_dtype", dtype.as_choice(DTYPES), dtype)
    longest = trainer.take(f"{ROLLOUT}.max_model_len", trainer.prompt + trainer.response)
    draft.put(f"{field}.max_model_len", longest.as_int(minimum=1), longest)
    for name, word, default in (
        ("max_num_batched_tokens", "max_num_batched_tokens", 8192),
        ("max_num_seqs", "max_num_sequences", 256),
    ):
        limit = trainer.take(f"{ROLLOUT}.{name}", default)
        draft.put(f"{field}.{word}", limit.as_int(minimum=1), limit)
    eager = trainer.take(f"{ROLLOUT}.enforce_eager", value=False)
    draft.put(f"{field}.enforce_eager", eager.as_bool(), eager)
    bucket = trainer.take(f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes", 2048)
    draft.put(f"{field}.bucket_bytes", bucket.as_int() * _MIB, bucket)
    for name, word in (("param_offload", "parameters"), ("optimizer_offload", "optimizer")):
        switch = trainer.take(f"{FSDP}.{name}", value=False)
        draft.put(f"{field}.offload_{word}", switch.as_bool(), switch)
