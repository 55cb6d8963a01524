"""The vocabulary of Megatron-LM's embedding.

``core/tokenizers/utils/build_tokenizer.py``: a tokenizer's, padded for the tensor ranks.
"""

from pathlib import PurePosixPath

from service.estimator.values.units import ceil_div
from service.formats.launches.pretraining.megatron_keys import MEGATRON
from service.formats.launches.pretraining.megatron_sizes import MODEL
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings, make_default

_SOURCE = f"Megatron Core {MEGATRON}, pretrain_gpt.py (args_defaults)"
_PADDED_TO = 128
_VOCABULARIES = {
    "GPT2BPETokenizer": 50257,
    "Llama2Tokenizer": 32000,
    "TikTokenizer": 131072,
}
"""Tokens of tokenizers that have one size (GPT-2's, Llama 2's, and 2^17 by default)."""


def read_vocabulary(
    arguments: Settings, draft: Draft, handed_in: HandedIn, tensor_parallel: int
) -> int | None:
    """Return the rows of the embedding, None where the tokenizer is unknown."""
    multiple = arguments.take("make_vocab_size_divisible_by")
    padded, size = arguments.take("padded_vocab_size"), arguments.take("vocab_size")
    kind, path = arguments.take("tokenizer_type"), arguments.take("tokenizer_model")
    if kind is None and path is None and size is None and padded is None:
        kind = make_default("tokenizer_type", "GPT2BPETokenizer", _SOURCE)
    for setting in (kind, path):
        if setting is not None:
            draft.note(setting, "the vocabulary")
    number = _count_tokens(padded or size, kind, path, draft, handed_in)
    if number is None:
        draft.ask("model", "its vocabulary is the tokenizer's; say vocab-size in the launch")
        return None
    if multiple is None or multiple.as_int(minimum=1) == _PADDED_TO or padded is not None:
        return number
    draft.note(multiple, "rows of the embedding a tensor rank are a multiple of it")
    rows = multiple.as_int() * tensor_parallel
    return ceil_div(number, rows) * rows


def _count_tokens(
    size: Setting | None,
    kind: Setting | None,
    path: Setting | None,
    draft: Draft,
    handed_in: HandedIn,
) -> int | None:
    if size is not None:
        draft.note(size, MODEL)
        return size.as_int(minimum=1)
    if kind is not None and str(kind.value) in _VOCABULARIES:
        return _VOCABULARIES[str(kind.value)]
    if path is None:
        return None
    checkpoint = handed_in.launch.find_checkpoint(str(path.value))
    if checkpoint is None or checkpoint.vocab_size is None:
        return None
    name = PurePosixPath(str(path.value)).name
    draft.warn(f"the vocabulary is that of {name}'s config, which a tokenizer may fill in part")
    return checkpoint.vocab_size
