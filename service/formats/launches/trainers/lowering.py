"""Arguments of a trainer as the workload that it runs."""

from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.trainers.adapters import read_adapters
from service.formats.launches.trainers.engine_precision import put_engine_precision
from service.formats.launches.trainers.environment import read_environment
from service.formats.launches.trainers.evaluations import read_evaluation
from service.formats.launches.trainers.setup import TRANSFORMERS, Client, TrainerSetup
from service.formats.launches.trainers.sharding import check_total, read_sharding
from service.formats.launches.trainers.trl_config import read_trl
from service.formats.launches.trainers.trl_releases import CHECKPOINTED, show_release
from service.formats.launches.trainers.unused import WITHOUT_EFFECT
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings, make_default

_SOURCE = f"transformers {TRANSFORMERS}, training_args.py"
_LENGTHS = (
    *("sequence_length", "max_seq_length", "max_sequence_length", "seq_length", "seq_len"),
    "max_seq_len",
    *("max_length", "model_max_length", "cutoff_len", "block_size", "max_source_length"),
)
_TARGET_LENGTHS = ("decoder_length", "max_target_length", "target_length")
_ATTENTION = {
    "eager": "eager",
    "sdpa": "sdpa",
    **dict.fromkeys(
        (
            *("flash_attention_2", "flash_attention_3", "flash_attn", "flash"),
            *("kernels-community/flash-attn", "kernels-community/flash-attn2"),
            *("kernels-community/flash-attn3", "kernels-community/vllm-flash-attn3"),
        ),
        "flash",
    ),
}
_UNMODELLED = {
    "neftune_noise_alpha": "the noise is one more copy of the embeddings' output",
    "torch_empty_cache_steps": "the cache is emptied between steps, which takes less",
    "auto_find_batch_size": "the batch shrinks by itself where it does not fit",
    "optim_target_modules": "every matrix has the optimizer that optim names",
    "optim_args": "its settings have their defaults",
}


def lower_trainer(
    setup: TrainerSetup, draft: Draft, handed_in: HandedIn, without_effect: tuple[str, ...] = ()
) -> None:
    """Set the workload of a trainer and its layout.

    Patterns of names ``without_effect`` are of this trainer alone.
    """
    read_environment(handed_in, setup.training, draft)
    engine = read_sharding(setup, draft, handed_in)
    setup = engine.setup
    draft.put("workload.task", "train")
    draft.put("workload.framework", "transformers")
    _read_lengths(setup, draft)
    _read_batch(setup, draft)
    check_total(engine, draft)
    read_trl(setup, draft)
    put_engine_precision(engine, draft, handed_in)
    _read_step(setup, draft)
    _read_kernels(setup, draft)
    _refuse_smoothing(setup)
    read_evaluation(setup, draft)
    read_adapters(setup, draft, handed_in)
    for name, reason in _UNMODELLED.items():
        setting = setup.training.take(name)
        if setting is not None and setting.value not in (False, 0, 0.0):
            draft.ignore(setting, reason)
    draft.account(setup.training, (*WITHOUT_EFFECT, *without_effect))


def _read_lengths(setup: TrainerSetup, draft: Draft) -> None:
    training = setup.training
    if setup.client.is_policy:
        return  # Prompts and completions have lengths of their own.
    length = training.take(*_LENGTHS)
    if length is None and setup.client.is_trl:
        source = "TRL, max_length of its configs"
        length = make_default("max_length", 1024, source)
    if length is None:
        draft.ask("workload.sequence_length", "the tokens of a batch's rows are the data's")
    else:
        draft.put("workload.sequence_length", length.as_int(minimum=1), length)
    target = training.take(*_TARGET_LENGTHS)
    if target is not None:
        draft.put("workload.decoder_length", target.as_int(minimum=1), target)


def _read_batch(setup: TrainerSetup, draft: Draft) -> None:
    training = setup.training
    batch = training.take("per_device_train_batch_size") or make_default(
        "per_device_train_batch_size", 8, _SOURCE
    )
    draft.put("workload.micro_batch_size", batch.as_int(minimum=1), batch)
    steps = training.take("gradient_accumulation_steps") or make_default(
        "gradient_accumulation_steps", 1, _SOURCE
    )
    draft.put("workload.gradient_accumulation_steps", steps.as_int(minimum=1), steps)


def _read_step(setup: TrainerSetup, draft: Draft) -> None:
    training = setup.training
    optimizer = training.take("optim") or make_default("optim", "adamw_torch_fused", _SOURCE)
    draft.put("workload.optimizer", optimizer.as_text().removeprefix("OptimizerNames."), optimizer)
    norm = training.take("max_grad_norm") or make_default("max_grad_norm", 1.0, _SOURCE)
    draft.put("workload.gradient_clipping", norm.as_float() > 0.0, norm)
    limit = training.take("save_total_limit")
    if limit is not None and limit.as_int(minimum=None) > 0:
        draft.put("workload.save_total_limit", limit.as_int(), limit)
    elif limit is not None:
        draft.note(limit, "every checkpoint is kept")
    _read_checkpointing(setup, draft)


def _read_checkpointing(setup: TrainerSetup, draft: Draft) -> None:
    training = setup.training
    switch = training.take("gradient_checkpointing", "activation_checkpointing")
    if switch is None:
        switch = _make_checkpointing(setup, draft)
    runs = switch.as_bool()
    draft.put("workload.activation_checkpointing", "full" if runs else "none", switch)
    reentrant = training.take(
        "gradient_checkpointing_kwargs.use_reentrant",
        "activation_checkpointing_kwargs.use_reentrant",
    )
    if runs and reentrant is not None:
        draft.put("workload.reentrant_checkpointing", reentrant.as_bool(), reentrant)
    elif reentrant is not None:
        draft.drop(reentrant)


def _make_checkpointing(setup: TrainerSetup, draft: Draft) -> Setting:
    """Return the default of whether activations are computed again."""
    if not setup.client.is_trl:
        return make_default("gradient_checkpointing", value=False, source=_SOURCE)
    since = show_release(CHECKPOINTED)
    source = f"TRL since {since}, trl/trainer/base_config.py"
    if setup.trl_before is None or setup.trl_before > CHECKPOINTED:
        if setup.trl_before is not None:
            why = f"TRL has gradient_checkpointing on since {since}, and which this is is not said"
            draft.ask("workload.activation_checkpointing", why, ("full", "none"))
        return make_default("gradient_checkpointing", value=True, source=source)
    return make_default("gradient_checkpointing", value=False, source=f"TRL before {since}")


def _refuse_smoothing(setup: TrainerSetup) -> None:
    """Refuse a smoothed loss, which takes more than the plain one.

    It makes a copy of fp32 logits, their log-probabilities and the negatives of these
    (transformers 5.23, ``trainer_pt_utils.py``, ``LabelSmoother``); TRL's SFT, whose loss makes no
    logits, makes them for it. Trainers with a loss of their own leave it out.
    """
    factor = setup.training.peek("label_smoothing_factor")
    smooths = factor is not None and factor.as_float() != 0.0
    if factor is not None and smooths and setup.client in {Client.TRAINER, Client.SFT}:
        raise factor.refuse("0: a loss with smoothed labels makes all logits anew, and has no term")


def _read_kernels(setup: TrainerSetup, draft: Draft) -> None:
    training = setup.training
    liger = training.take("use_liger_kernel", "use_liger")
    if liger is not None:
        draft.put("workload.kernels", "liger" if liger.as_bool() else "torch", liger)
    attention = setup.model.take("attn_implementation", "_attn_implementation")
    if attention is not None:
        draft.put("workload.attention", attention.as_choice(_ATTENTION), attention)
    _read_compile(training, draft)
    _put_switch(training.take("full_determinism"), "workload.deterministic", draft)
    tf32 = training.take("tf32")
    if tf32 is not None:
        draft.note(tf32, "fp32 products in TF32, which decides time alone")


_GRAPHED = frozenset({"reduce-overhead", "max-autotune", "cudagraphs"})
"""Modes of ``torch.compile`` with CUDA graphs (torch ``_inductor/__init__.py``,
``list_mode_options``), and the backend of that name.
"""
_EAGER_BACKENDS = frozenset({"eager", "aot_eager"})
"""Backends that compile no kernel (torch ``_dynamo/backends/debugging.py``)."""


def _read_compile(training: Settings, draft: Draft) -> None:
    """Read what ``torch.compile`` is.

    A backend or a mode turns it on by itself (transformers ``training_args.py``,
    ``TrainingArguments.__post_init__``).
    """
    switch = training.take("torch_compile")
    backend = training.take("torch_compile_backend")
    mode = training.take("torch_compile_mode")
    given = [setting for setting in (switch, backend, mode) if setting is not None]
    if backend is None and mode is None:
        _put_switch(switch, "workload.compile", draft)
        return
    compiles = backend is None or str(backend.value) not in _EAGER_BACKENDS
    draft.put("workload.compile", compiles, *given)
    for setting in given:
        if str(setting.value) in _GRAPHED:
            draft.warn(f"the pool of the CUDA graphs of {setting.value} has no term: add it")


def _put_switch(setting: Setting | None, field: str, draft: Draft) -> None:
    if setting is not None:
        draft.put(field, setting.as_bool(), setting)
