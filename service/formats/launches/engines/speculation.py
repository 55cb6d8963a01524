"""Tokens that are guessed ahead, as the engines' launches say it."""

from collections.abc import Mapping

from service.estimator.values.speculative import DraftHead
from service.formats.launches.engines.engine_settings import read_object
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings, make_default

NO_TERM = "this way of guessing has no term; say workload.speculative for a draft model or a head"
_FIELD = "workload.speculative"
_OF_THE_PROMPT = frozenset({"ngram", "ngram_gpu", "suffix", "[ngram]"})
_SPECULATION = {
    "spec_method": "method",
    "spec_model": "model",
    "spec_tokens": "num_speculative_tokens",
}
"""Arguments of vLLM that stand for a key of ``speculative_config``."""
_SGLANG = "SGLang 0.5.23, _auto_choose_speculative_params"
_VLLM = "vLLM 0.33.0, vllm/config/speculative.py"
_UNMODELLED = {
    **dict.fromkeys(("dflash", "dspark", "medusa", "mlp_speculator"), NO_TERM),
    "gemma4_mtp": "its layers read the model's cache, which has no term",
}
_PROBABILISTIC = "logits of all guesses are kept, of which no term counts any"
_LIKE_THE_MODEL = "the draft has the tensor ranks, the number formats and the length of its model"
_SGLANG_HEADS: Mapping[str, DraftHead] = {
    "EAGLE": DraftHead.EAGLE,
    "EAGLE3": DraftHead.EAGLE3,
    "NEXTN": DraftHead.MTP,
}
_STEPS = 3
"""Steps where nobody says how many, of all models but Grok and Llama (SGLang 0.5.23,
``auto_choose_speculative_params``); each takes room for one token more.
"""


def read_vllm_speculation(settings: Settings, draft: Draft) -> None:
    """Read ``speculative_config`` of vLLM and the arguments that stand for its keys."""
    speculation = read_object(settings, "speculative_config") or Settings()
    for name, word in _SPECULATION.items():
        setting = settings.take(name)
        if setting is not None:
            speculation.add(word, setting)
    method, model = speculation.take("method"), speculation.take("model")
    tokens = speculation.take("num_speculative_tokens")
    named = method or model
    if named is None:
        _ignore(draft, NO_TERM, tokens)
    else:
        _read_method(draft, _name_kind(method, model), named, tokens, model)
    sampling = speculation.take("draft_sample_method")
    if sampling is not None and str(sampling.value) == "probabilistic":
        draft.ignore(sampling, _PROBABILISTIC)
    elif sampling is not None:
        draft.drop(sampling)
    for name in ("draft_tensor_parallel_size", "quantization", "kv_cache_dtype", "max_model_len"):
        setting = speculation.take(name)
        if setting is not None:
            draft.ignore(setting, _LIKE_THE_MODEL)
    draft.account(speculation, ("prompt_lookup_*", "suffix_*", "disable_*", "rejection_*"))


def _name_kind(method: Setting | None, model: Setting | None) -> str:
    """Return how tokens are guessed.

    A checkpoint's name tells it where nobody says it.
    """
    if method is not None and str(method.value).casefold() != "draft_model":
        return str(method.value).casefold()
    name = "" if model is None else str(model.value).casefold()
    if method is None and name in _OF_THE_PROMPT:
        return name
    marks = {"eagle-": "eagle", "eagle3": "eagle3", "dflash": "dflash", "dspark": "dspark"}
    return next((kind for mark, kind in marks.items() if mark in name), "draft_model")


def _read_method(
    draft: Draft, kind: str, named: Setting, tokens: Setting | None, model: Setting | None
) -> None:
    if kind in _UNMODELLED:
        _ignore(draft, _UNMODELLED[kind], named, None if model is named else model, tokens)
    elif kind == "mtp" or kind.endswith("_mtp"):
        tokens = tokens or make_default("num_speculative_tokens", 1, _VLLM)
        draft.put(f"{_FIELD}.num_tokens", tokens.as_int(minimum=1), tokens)
        put_head(draft, DraftHead.MTP, named, model)
    elif tokens is None:
        raise named.refuse("num_speculative_tokens beside it")
    elif kind in {DraftHead.EAGLE, DraftHead.EAGLE3}:
        draft.put(f"{_FIELD}.num_tokens", tokens.as_int(minimum=1), tokens)
        put_head(draft, DraftHead(kind), named, model)
    elif kind in _OF_THE_PROMPT | {"draft_model"}:
        is_drafted = kind == "draft_model"
        put_draft(draft, tokens, model if is_drafted else None)
        if named is not model or not is_drafted:
            draft.note(named, "who guesses tokens ahead")
        if model is not None and not is_drafted and model is not named:
            draft.drop(model)
    else:
        _ignore(draft, NO_TERM, named, None if model is named else model, tokens)


def put_draft(draft: Draft, tokens: Setting, model: Setting | None) -> None:
    """Set the tokens that a model, or the prompt's n-grams, guess."""
    draft.put(f"{_FIELD}.num_tokens", tokens.as_int(minimum=1), tokens)
    if model is not None:
        _put_checkpoint(draft, model)


def _put_checkpoint(draft: Draft, model: Setting) -> None:
    """Set the draft model.

    Whoever asks may name it otherwise, or bring it along.
    """
    name = model.as_text()
    draft.put(f"{_FIELD}.draft", name)
    draft.note(model, f"{_FIELD}.draft = {name}")


def put_head(draft: Draft, head: DraftHead, named: Setting, model: Setting | None) -> None:
    """Set the layers that guess from hidden states.

    No catalogue has their configs.
    """
    draft.put(f"{_FIELD}.head", head.value, *(() if named is model else (named,)))
    if head is DraftHead.MTP and model is not None and model is not named:
        draft.drop(model)
    if head is DraftHead.MTP:
        return
    if model is None:
        raise named.refuse("the checkpoint of the head beside it")
    name = model.as_text()
    draft.note(model, f"the checkpoint of the {head} head, whose config is asked for")
    draft.ask(
        f"{_FIELD}.draft",
        f"the {head} head {name} is sized by its own config.json: bring it along, or name it "
        f"hub:{name}",
    )


def _ignore(draft: Draft, reason: str, *settings: Setting | None) -> None:
    for setting in settings:
        if setting is not None:
            draft.ignore(setting, reason)


def read_sglang_speculation(settings: Settings, draft: Draft) -> None:
    """Read who guesses tokens ahead of SGLang.

    Those that are verified are one more than the guessed.
    """
    algorithm = settings.take("speculative_algorithm")
    model = settings.take("speculative_draft_model_path")
    verified = settings.take("speculative_num_draft_tokens")
    steps = settings.take("speculative_num_steps")
    kind = "" if algorithm is None else str(algorithm.value).upper()
    if algorithm is None or kind not in {"STANDALONE", "NGRAM", *_SGLANG_HEADS}:
        _ignore(draft, NO_TERM, algorithm, model, verified, steps)
        return
    guessed = _count_guessed(verified, steps)
    if not guessed and kind not in _SGLANG_HEADS:
        draft.ignore(algorithm, "how many tokens it guesses is its own; say workload.speculative")
        return
    counted = [setting for setting in (verified, steps) if setting is not None]
    counted = counted or [make_default("speculative_num_steps", _STEPS, _SGLANG)]
    draft.put(f"{_FIELD}.num_tokens", guessed or _STEPS, *counted)
    if kind in _SGLANG_HEADS:
        # EAGLE without a checkpoint of its own is the model's predictors.
        is_own = kind == "EAGLE" and model is None
        put_head(draft, DraftHead.MTP if is_own else _SGLANG_HEADS[kind], algorithm, model)
        return
    draft.note(algorithm, "who guesses tokens ahead")
    if model is not None:
        _put_checkpoint(draft, model)


def _count_guessed(verified: Setting | None, steps: Setting | None) -> int:
    """Return the tokens that are guessed at once, 0 where nobody says."""
    if verified is not None:
        return verified.as_int(minimum=2) - 1
    return 0 if steps is None else steps.as_int(minimum=1)


def read_tensorrt_speculation(settings: Settings, draft: Draft) -> None:
    """Read ``speculative_config`` of TensorRT-LLM.

    Draft models and n-grams have a term; layers of the model and heads have none on this engine.
    """
    option = settings.peek("speculative_config")
    speculation = read_object(settings, "speculative_config")
    if speculation is None:
        return
    kind = speculation.take("decoding_type")
    tokens = speculation.take("max_draft_len", "num_nextn_predict_layers")
    model = speculation.take(
        "speculative_model", "speculative_model_dir", "pytorch_weights_path", "draft_model"
    )
    word = "" if kind is None else str(kind.value).replace("_", "").casefold()
    named = kind or tokens or model or option
    if word in {"drafttarget", "ngram"} and named is not None:
        if tokens is None or (word == "drafttarget" and model is None):
            raise named.refuse("max_draft_len beside it, and speculative_model of a draft model")
        draft.note(named, "who guesses tokens ahead")
        put_draft(draft, tokens, model if word == "drafttarget" else None)
    else:
        _ignore(draft, _NO_HEADS if word in _TENSORRT_HEADS else NO_TERM, kind, model, tokens)
    draft.account(speculation, ("load_format", "acceptance_*", "is_*", "max_matching_ngram_size"))


_TENSORRT_HEADS = frozenset({"mtp", "eagle", "eagle3"})
_NO_HEADS = (
    "layers and heads that guess have a term on vllm and sglang: here neither their weights nor "
    "their cache are counted"
)
_LLAMA_CPP_TOKENS = 3
_LLAMA_CPP = "llama.cpp, common/common.h, common_params_speculative_draft"
_SIMPLE = frozenset({"", "none", "draft", "draft-simple"})


def read_llama_cpp_speculation(settings: Settings, draft: Draft) -> str | None:
    """Read who guesses tokens ahead of llama.cpp.

    Return the draft's file, if a model does.
    """
    kind = settings.take("spec_type")
    model = settings.take("model_draft", "spec_draft_model")
    repository = settings.take("hf_repo_draft", "spec_draft_hf_repo")
    tokens = settings.take("draft_max", "draft", "draft_n", "spec_draft_n_max")
    word = "" if kind is None else str(kind.value).casefold()
    named = model or repository
    if word.startswith("ngram"):
        tokens = settings.take(f"spec_{word.replace('-', '_')}_n_max") or tokens
        if tokens is None:
            _ignore(draft, "how many tokens it guesses is its own; say workload.speculative", kind)
        else:
            put_draft(draft, tokens, None)
            draft.note(kind or tokens, "who guesses tokens ahead")
        return None
    if word not in _SIMPLE:
        _ignore(draft, _NO_HEADS if word == "draft-mtp" else NO_TERM, kind, model, repository)
        _ignore(draft, NO_TERM, tokens)
        return None
    if kind is not None:
        draft.note(kind, "who guesses tokens ahead")
    if named is None:
        if tokens is not None:
            draft.drop(tokens)
        return None
    counted = tokens or make_default("draft_max", _LLAMA_CPP_TOKENS, _LLAMA_CPP)
    draft.put(f"{_FIELD}.num_tokens", counted.as_int(minimum=1), counted)
    return named.as_text()
