"""Evaluations of axolotl.

axolotl 0.19, ``core/builders/base.py``, ``_configure_save_and_eval_strategy``, and
``core/trainers/base.py``, ``_get_dataloader``.
"""

from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings

_SIZES = ("val_set_size", "test_datasets")


def read_evaluation(config: Settings, training: Settings, draft: Draft) -> None:
    """Move what an evaluation has, with axolotl's defaults.

    It needs data of its own, and a step or a strategy: its data alone make none.
    """
    data = _find_data(config, draft)
    steps, strategy = _take_steps(config), config.take("eval_strategy", "evaluation_strategy")
    batch, packing = config.take("eval_batch_size"), config.take("eval_sample_packing")
    length = config.take("eval_sequence_len")
    if data is not None and steps is not None:
        draft.note(data, "what an evaluation runs on")
        training.add("eval_strategy", Setting(key=steps.key, value="steps", where=steps.where))
        unused: tuple[Setting | None, ...] = (strategy,)
    elif data is not None and strategy is not None:
        draft.note(data, "what an evaluation runs on")
        training.add("eval_strategy", strategy)
        unused = (steps,)
    else:
        unused = (data, steps, strategy, batch, packing, length)
    if "eval_strategy" in training:
        _add_sizes(config, training, draft, batch, packing)
        is_cut = data is not None and data.key.startswith("test_datasets")
        if length is not None and is_cut:
            training.add("eval_sequence_length", length)
        elif length is not None:
            draft.drop(length)
    for setting in unused:
        if setting is not None:
            draft.drop(setting)


def _find_data(config: Settings, draft: Draft) -> Setting | None:
    """Return what says that there are data for an evaluation."""
    size = config.take("val_set_size")
    if size is not None and size.as_float() > 0.0:
        return size
    if size is not None:
        draft.drop(size)
    listed = config.take("test_datasets")
    if listed is not None:
        return listed
    return next((config.peek(name) for name in config if name.startswith("test_datasets.")), None)


def _take_steps(config: Settings) -> Setting | None:
    """Return what says after how many steps an evaluation runs.

    ``evals_per_epoch`` does unless it makes one evaluation of all epochs (``normalize_config``).
    """
    steps, number = config.take("eval_steps"), config.take("evals_per_epoch")
    if steps is not None and steps.as_float() > 0.0:
        return steps
    epochs = config.peek("num_epochs")
    evaluations = 0.0 if number is None else number.as_float()
    evaluations *= 1.0 if epochs is None else epochs.as_float()
    return number if evaluations > 1.0 else None


def _add_sizes(
    config: Settings,
    training: Settings,
    draft: Draft,
    batch: Setting | None,
    packing: Setting | None,
) -> None:
    """Add the batch, which is a step's where rows are packed.

    Its sampler of packed rows reads the batch of training.
    """
    packs = config.peek("sample_packing")
    is_packed = packs is not None and packs.as_bool() and (packing is None or packing.as_bool())
    trained = training.peek("per_device_train_batch_size")
    evaluated = trained if is_packed or batch is None else batch
    if evaluated is not None:
        training.add("per_device_eval_batch_size", evaluated)
    for setting in (packing, batch if evaluated is not batch else None):
        if setting is not None:
            draft.note(setting, "packed rows of an evaluation are as many as those of a step")
