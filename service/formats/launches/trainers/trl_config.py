"""Additions of TRL's trainers to Trainer's own step."""

from service.formats.launches.trainers.setup import TRL, Client, TrainerSetup
from service.formats.launches.trainers.trl_releases import (
    SCORED,
    SCORED_BY_KERNEL,
    Release,
    show_release,
)
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings, make_default

_LOSSES = {"nll": "nll", "chunked_nll": "chunked_nll", "dft": "dft"}
_WITHOUT_KL = "apo_zero_unpaired"
"""KTO's loss without a KL term (``trl/trainer/kto_trainer.py``, ``calculate_kl``)."""
UNREFERRED = frozenset({Client.ORPO, Client.CPO})
"""Trainers of pairs that have no reference."""
_PADDING_FREE_PACKINGS = ("bfd", "bfd_split", "bfd-requeue")


def read_trl(setup: TrainerSetup, draft: Draft) -> None:
    """Set TRL's trainer, its loss and its rows."""
    if not setup.client.is_trl:
        return
    if setup.client is Client.SFT:
        _read_sft(setup, draft)
    elif setup.client in UNREFERRED:
        _read_pairs(setup, draft)
    else:
        # A policy's step is GRPO's, whatever it makes of the rewards.
        word = Client.GRPO if setup.client.is_policy else setup.client
        draft.put("workload.trainer", word.value)
    if setup.client in {Client.DPO, Client.KTO}:
        _read_preferences(setup, draft)
    offloads = setup.training.take("activation_offloading")
    if offloads is not None:
        draft.put("workload.offload.activations", "cpu" if offloads.as_bool() else "none", offloads)
    multiple = setup.training.take("pad_to_multiple_of")
    if multiple is not None and str(multiple.value) != "auto":
        draft.note(multiple, "rows are padded to a multiple, which sequence_length has to be")


def _read_sft(setup: TrainerSetup, draft: Draft) -> None:
    """Set the loss, which Liger's does not replace.

    TRL turns Liger's fused loss off, and has its layers' kernels alone (``sft_trainer.py``). Before
    0.20 the loss was the model's own, or Liger's.
    """
    _read_packing(setup, draft)
    loss = take_word(setup.training, "loss_type")
    if setup.has_own_loss and (loss is None or str(loss.value) == "nll"):
        own = loss or make_default("loss_type", "nll", "unsloth, models/rl.py, below TRL 1.16")
        draft.put("workload.loss", "fused_linear", own)
        return
    if loss is None and setup.trl_before is not None:
        return
    source = f"TRL {TRL}, trl/trainer/sft_config.py"
    loss = loss or make_default("loss_type", "nll", source)
    draft.put("workload.loss", loss.as_choice(_LOSSES), loss)


def take_word(training: Settings, name: str) -> Setting | None:
    """Return a setting of one word, also from a list."""
    setting = training.take(name)
    if setting is None or not isinstance(setting.value, list) or len(setting.value) != 1:
        return setting
    return Setting(key=setting.key, value=setting.value[0], where=setting.where)


def _read_packing(setup: TrainerSetup, draft: Draft) -> None:
    training = setup.training
    packing, free = training.take("packing"), training.take("padding_free")
    strategy = training.take("packing_strategy")
    if packing is not None and packing.as_bool():
        name = "bfd" if strategy is None else strategy.as_text()
        # Blocks of the wrapped strategy are cut through documents and masked as one row each.
        rows = "packed" if name in _PADDING_FREE_PACKINGS else "none"
        settings = (packing,) if strategy is None else (packing, strategy)
        draft.put("workload.packing", rows, *settings)
    elif free is not None and free.as_bool():
        draft.put("workload.packing", "padding_free", free)
    else:
        for setting in (packing, free, strategy):
            if setting is not None:
                draft.drop(setting)


def _read_preferences(setup: TrainerSetup, draft: Draft) -> None:
    precomputed = setup.training.take("precompute_ref_log_probs")
    adapts = len(setup.adapters) > 0
    second = setup.training.take("ref_model")
    if precomputed is not None and precomputed.as_bool():
        draft.put("workload.reference", "precomputed", precomputed)
    elif second is not None:
        draft.put("workload.reference", "model", second)
        draft.warn(f"{second.key} {second.value} is counted as large as the model itself")
    else:
        draft.put("workload.reference", "adapters_off" if adapts else "model")
        if precomputed is not None:
            draft.drop(precomputed)
    synced = setup.training.take("sync_ref_model")
    if synced is not None:
        draft.note(synced, "the reference is copied into between steps, in place")
    losses = setup.training.take("loss_type")
    if losses is not None and losses.value == _WITHOUT_KL:
        draft.ignore(losses, "its passes are counted with those of a KL term, which it has not")
    elif losses is not None:
        draft.note(losses, "a loss of the same log-probabilities")
    put_older_loss(setup, draft, SCORED)
    _read_rows(setup.training, draft)
    batch = setup.training.take("precompute_ref_batch_size")
    if batch is not None:
        draft.note(batch, "the reference runs before training, and is not a part of the answer")


def _read_pairs(setup: TrainerSetup, draft: Draft) -> None:
    """Set a trainer of pairs without a reference.

    With ``cpo_alpha`` 0 CPO's has no loss of the chosen sequences, as SimPO's paper has none; its
    ``loss_type`` alone leaves it (TRL 1.16, ``trl/experimental/cpo/cpo_config.py``).
    """
    training = setup.training
    alpha, loss = training.take("cpo_alpha"), training.take("loss_type")
    is_alone = loss is not None and str(loss.value) == "alphapo"
    if setup.client is Client.CPO and (is_alone or (alpha is not None and alpha.as_float() == 0.0)):
        draft.put("workload.trainer", "simpo", *(x for x in (alpha, loss) if x is not None))
    else:
        draft.put("workload.trainer", setup.client.value)
        for setting in (alpha, loss):
            if setting is not None:
                draft.note(setting, "a loss of the same log-probabilities")
    for name in ("simpo_gamma", "alpha"):
        weight = training.take(name)
        if weight is not None:
            draft.note(weight, "a number of the loss")
    put_older_loss(setup, draft, SCORED_BY_KERNEL)
    _read_rows(training, draft)


def put_older_loss(setup: TrainerSetup, draft: Draft, since: Release) -> None:
    """Set the loss of a release before ``since``, if it is one."""
    if setup.trl_before is not None and setup.trl_before <= since:
        source = f"TRL before {show_release(since)}, trainer/utils.py, selective_log_softmax"
        draft.put("workload.loss", "selective", make_default("loss", "selective", source))


def _read_rows(training: Settings, draft: Draft) -> None:
    """Account for what says how rows of preferences are filled."""
    free = training.take("padding_free")
    if free is not None and free.as_bool():
        draft.ignore(free, "rows are counted with their padding")
    elif free is not None:
        draft.drop(free)
    for name in ("max_prompt_length", "max_completion_length"):
        part = training.take(name)
        if part is not None:
            draft.note(part, "a part of max_length, which rows have at most")
