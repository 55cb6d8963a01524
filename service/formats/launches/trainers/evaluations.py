"""Evaluations between steps, as transformers' Trainer runs them.

transformers 5.23, ``trainer.py``, ``evaluate`` and ``evaluation_loop``: without ``compute_metrics``
losses alone are kept, with it the logits of every batch, or of ``eval_accumulation_steps``.
"""

from service.formats.launches.trainers.setup import TRANSFORMERS, Client, TrainerSetup
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, make_default

_SOURCE = f"transformers {TRANSFORMERS}, training_args.py"
_EVALUATION = "workload.evaluation"
_KEPT = f"{_EVALUATION}.kept_batches"
_OF_EVALUATIONS = (
    *("eval_strategy", "evaluation_strategy", "do_eval", "eval_on_start", "compute_metrics"),
    *("per_device_eval_batch_size", "per_gpu_eval_batch_size", "eval_accumulation_steps"),
    *("prediction_loss_only", "batch_eval_metrics", "eval_do_concat_batches", "eval_packing"),
    *("include_for_metrics", "include_inputs_for_metrics", "metric_for_best_model"),
    *("eval_sequence_length", "predict_with_generate", "preprocess_logits_for_metrics"),
)
_STRATEGIES = ("no", "steps", "epoch")
"""transformers 5.23, ``trainer_utils.py``, ``IntervalStrategy``."""
_LOSSES = frozenset({"loss", "eval_loss"})
_PER_TOKEN = {
    "include_for_metrics": "inputs of every evaluated token, 8 bytes each",
    "include_inputs_for_metrics": "inputs of every evaluated token, 8 bytes each",
    "preprocess_logits_for_metrics": "what it leaves of the logits of every batch",
}
"""What an evaluation keeps beside losses and logits."""
_HINT = "logits of every evaluated batch stay on the GPU, or of eval_accumulation_steps batches"


def read_evaluation(setup: TrainerSetup, draft: Draft) -> None:
    """Set the evaluation between steps, if there is one."""
    training = setup.training
    settings = {name: setting for name in _OF_EVALUATIONS if (setting := training.take(name))}
    reason = _find_reason(settings)
    obstacle = None if reason is None else _find_obstacle(setup, settings, draft)
    if reason is None or obstacle is not None:
        if reason is not None:
            draft.ignore(settings.pop(reason), f"an evaluation is not counted: {obstacle}")
        _drop(settings, draft)
        return
    draft.note(settings.pop(reason), "an evaluation runs beside what stays between steps")
    _put_sizes(settings, draft)
    is_plain = setup.client is Client.TRAINER
    if is_plain and setup.applies_liger and draft.get("workload.kernels") == "liger":
        draft.put(f"{_EVALUATION}.loss", "full_logits")
        draft.warn(
            "Liger's kernels make all logits in an evaluation, since Trainer does not know of them"
        )
    _read_kept(setup, settings, draft)
    for name, meaning in _PER_TOKEN.items():
        setting = settings.pop(name, None)
        if setting is not None:
            draft.ignore(setting, f"{meaning}, are not counted")
    _drop(settings, draft)


def _find_reason(settings: dict[str, Setting]) -> str | None:
    """Return the name of the setting that an evaluation runs by.

    None is no evaluation. A script that is told ``do_eval`` evaluates after training, beside the
    same states.
    """
    for name in ("eval_strategy", "evaluation_strategy"):
        strategy = settings.get(name)
        if strategy is not None and _read_strategy(strategy) != "no":
            return name
    for name in ("eval_on_start", "do_eval"):
        switch = settings.get(name)
        if switch is not None and switch.as_bool():
            return name
    return None


def _read_strategy(strategy: Setting) -> str:
    """Return when an evaluation runs.

    Raises LaunchFormatError for a word that transformers does not know.
    """
    if strategy.value is False:  # YAML's ``no``
        return "no"
    word = str(strategy.value).removeprefix("IntervalStrategy.").lower()
    if word not in _STRATEGIES:
        raise strategy.refuse(f"one of {', '.join(_STRATEGIES)}")
    return word


def _find_obstacle(setup: TrainerSetup, settings: dict[str, Setting], draft: Draft) -> str | None:
    """Return why an evaluation has no term, None where it has one."""
    generates = settings.get("predict_with_generate")
    if setup.client.is_policy or (generates is not None and generates.as_bool()):
        return "it generates"
    shares = draft.get("layout.context_parallel")
    if isinstance(shares, int) and shares > 1:
        return "ranks share its sequences"
    return None


def _put_sizes(settings: dict[str, Setting], draft: Draft) -> None:
    batch = settings.pop("per_device_eval_batch_size", None)
    former = settings.pop("per_gpu_eval_batch_size", None)
    batch = batch or former or make_default("per_device_eval_batch_size", 8, _SOURCE)
    draft.put(f"{_EVALUATION}.batch_size", batch.as_int(minimum=1), batch)
    length = settings.pop("eval_sequence_length", None)
    if length is not None:
        draft.put(f"{_EVALUATION}.sequence_length", length.as_int(minimum=1), length)
    packing = settings.pop("eval_packing", None)
    if packing is not None:
        draft.note(packing, "rows of an evaluation are counted as full as those of a step")


def _read_kept(setup: TrainerSetup, settings: dict[str, Setting], draft: Draft) -> None:
    """Set how many batches' logits are kept, or ask for it."""
    steps = settings.pop("eval_accumulation_steps", None)
    losses = settings.pop("prediction_loss_only", None)
    batched = settings.pop("batch_eval_metrics", None)
    joined = settings.pop("eval_do_concat_batches", None)
    alone = losses is not None and losses.as_bool()
    keeps = False if alone else _find_metrics(setup, settings, batched)
    if joined is not None and keeps is not False and not joined.as_bool():
        draft.ignore(joined, "kept batches are counted as joined")
    elif joined is not None:
        draft.drop(joined)
    if keeps is False or (keeps is None and (setup.client.is_trl or setup.measures is False)):
        draft.put(_KEPT, 0, *([losses] if losses is not None and alone else []))
        _drop({str(index): s for index, s in enumerate((steps, batched)) if s}, draft)
    elif setup.client not in {Client.TRAINER, Client.SFT}:
        draft.put(_KEPT, 0)
        draft.warn("logits that an evaluation keeps of preferences are not counted")
    elif batched is not None and batched.as_bool():
        draft.put(_KEPT, 1, batched)
    elif steps is not None:
        _put_steps(steps, draft, is_certain=keeps is True)
    elif keeps:
        draft.ask(_KEPT, f"it has metrics: {_HINT}; how many batches are there?", lower_bound=0)
    else:
        default = make_default("compute_metrics", None, "transformers, trainer.py")
        draft.put(_KEPT, 0, default)
        why = f"none is counted; of a script with compute_metrics {_HINT}"
        draft.ask(_KEPT, why, is_assumed=True)


def _put_steps(steps: Setting, draft: Draft, *, is_certain: bool) -> None:
    number = steps.as_int(minimum=1)
    draft.put(_KEPT, number, steps)
    if not is_certain:
        why = "a script without compute_metrics keeps none"
        draft.ask(_KEPT, why, (number, 0), is_assumed=True)


def _find_metrics(
    setup: TrainerSetup, settings: dict[str, Setting], batched: Setting | None
) -> bool | None:
    """Return whether metrics are computed from logits, None where nobody says."""
    metrics = settings.pop("compute_metrics", None)
    best = settings.pop("metric_for_best_model", None)
    if metrics is not None or setup.measures is not None:
        return metrics is not None or setup.measures
    if batched is not None and batched.as_bool():
        return True
    is_measured = best is not None and str(best.value) not in _LOSSES and not setup.client.is_trl
    return True if is_measured or "preprocess_logits_for_metrics" in settings else None


def _drop(settings: dict[str, Setting], draft: Draft) -> None:
    for setting in settings.values():
        draft.drop(setting)
