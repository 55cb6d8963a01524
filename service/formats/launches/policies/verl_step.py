"""Update of verl: its reference, number formats, optimizer and checkpoints."""

from service.formats.launches.policies.verl_settings import ACTOR, DTYPES, FSDP, MODEL, VerlTrainer

_OPTIMIZERS = {"AdamW": "adamw", "AdamW8bit": "adamw_8bit", "PagedAdamW8bit": "paged_adamw_8bit"}


def read_reference(trainer: VerlTrainer) -> None:
    """Set the reference, whose weights verl keeps on the host."""
    switches = [
        trainer.take(name, value=False)
        for name in (f"{ACTOR}.use_kl_loss", "algorithm.use_kl_in_reward")
    ]
    if any(switch.as_bool() for switch in switches):
        word = "adapters_off" if trainer.adapts else "offloaded"
        trainer.draft.put("workload.reference", word, *switches)
    else:
        for switch in switches:
            trainer.draft.drop(switch)


def read_step(trainer: VerlTrainer) -> None:
    """Set number formats, optimizer, checkpoints and the entropy in the loss."""
    draft = trainer.draft
    weights = trainer.take(f"{FSDP}.model_dtype", "fp32")
    computed = trainer.take(f"{FSDP}.dtype", "bfloat16")
    formats = {
        "param_dtype": weights.as_choice(DTYPES),
        "compute_dtype": computed.as_choice(DTYPES),
        "reduce_dtype": "fp32",
    }
    draft.put("workload.precision", formats, weights, computed)
    if trainer.adapts:
        draft.put("workload.lora.dtype", formats["param_dtype"])
    optimizer = trainer.take(f"{ACTOR}.optim.optimizer", "AdamW")
    draft.put("workload.optimizer", optimizer.as_choice(_OPTIMIZERS), optimizer)
    implementation = trainer.settings.take(f"{ACTOR}.optim.optimizer_impl")
    if implementation is not None:
        draft.note(implementation, "where the optimizer comes from")
    clips = trainer.take(f"{ACTOR}.grad_clip", 1.0)
    draft.put("workload.gradient_clipping", clips.as_float() > 0, clips)
    checkpoints = trainer.take(f"{MODEL}.enable_gradient_checkpointing", value=True)
    word = "full" if checkpoints.as_bool() else "none"
    draft.put("workload.activation_checkpointing", word, checkpoints)
    bonus = trainer.take(f"{ACTOR}.entropy_coeff", 0)
    draft.put("workload.entropy_bonus", bonus.as_float() != 0.0, bonus)
    policy = trainer.take(f"{FSDP}.offload_policy", value=False)
    if policy.as_bool():
        draft.put("workload.offload.parameters", "cpu", policy)
        draft.put("workload.offload.optimizer", "cpu")
