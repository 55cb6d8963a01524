"""Keyword arguments of ``generate()`` of transformers."""

from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.trainers.number_formats import DTYPES, ask_dtype
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Setting, Settings, make_default

TRANSFORMERS = "5.23.0"
_SOURCE = f"transformers {TRANSFORMERS}, generation/configuration_utils.py"
_BATCHES = ("batch", "batch_size", "num_sequences", "per_device_batch_size")
_PROMPTS = ("prompt_tokens", "prompt_length", "input_length", "input_tokens", "prompt")
_NEW = ("max_new_tokens", "output_tokens", "new_tokens", "min_new_tokens", "new")
_CACHES = {
    "dynamic": "dynamic",
    "static": "static",
    "sliding_window": "static",
    "hybrid": "static",
    "dynamic_full": "dynamic",
}
_ATTENTION = {
    "eager": "eager",
    "sdpa": "sdpa",
    **dict.fromkeys(("flash_attention_2", "flash_attention_3", "flash"), "flash"),
}
_WITHOUT_EFFECT = (
    *("temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty", "seed"),
    *("pad_token_id", "eos_token_id", "bos_token_id", "early_stopping", "length_penalty"),
    *("min_new_tokens", "min_length", "use_cache", "streamer", "no_repeat_ngram_size"),
    *("return_dict_in_generate", "attention_mask", "tokenizer", "max_time", "stop_strings"),
)
_MODEL_WITHOUT_EFFECT = (
    *("device_map*", "cache_dir", "revision", "trust_remote_code", "low_cpu_mem_usage", "token"),
    *("quantization_config.quant_method", "quantization_config.bnb_4bit_quant_type"),
    *("quantization_config.bnb_4bit_compute_dtype", "quantization_config.bnb_4bit_quant_storage"),
    "quantization_config.bnb_4bit_use_double_quant",
)


def read_generation(handed_in: HandedIn, draft: Draft) -> None:
    """Read the arguments of ``generate()`` and of loading its model."""
    arguments = handed_in.arguments
    for document in handed_in.documents.values():
        arguments = arguments.merge(document)
    draft.put("workload.task", "serve")
    draft.put("workload.engine", "transformers")
    draft.put("workload.client", "generate")
    name = arguments.take("model", "model_name_or_path", "model_id", "pretrained_model_name")
    if name is not None:
        draft.put("model", name.as_text(), name)
    else:
        draft.ask("model", "the arguments name no model")
    _read_sizes(arguments, draft)
    _read_sampling(arguments, draft)
    model = arguments.take_group("model_kwargs")
    for word in ("dtype", "torch_dtype", "attn_implementation", "load_in_4bit", "load_in_8bit"):
        setting = arguments.take(word)
        if setting is not None:
            model.add(word, setting)
    model = model.merge(_nest(arguments.take_group("quantization_config")))
    _read_weights(model, None if name is None else name.as_text(), draft, handed_in)
    attention = model.take("attn_implementation")
    if attention is not None:
        draft.put("workload.attention", attention.as_choice(_ATTENTION), attention)
    draft.account(model, _MODEL_WITHOUT_EFFECT)
    draft.account(arguments, _WITHOUT_EFFECT)


def _nest(group: Settings) -> Settings:
    named = {f"quantization_config.{name}": group.peek(name) for name in group}
    return Settings({name: value for name, value in named.items() if value is not None})


def _read_sizes(arguments: Settings, draft: Draft) -> None:
    batch = arguments.take(*_BATCHES)
    if batch is None:
        draft.ask("workload.num_sequences", "the batch is the prompts', and none is given")
    else:
        draft.put("workload.num_sequences", batch.as_int(minimum=1), batch)
    prompt = arguments.take(*_PROMPTS)
    if prompt is None:
        draft.ask("workload.prompt_tokens", "the tokens of the prompts are not given")
    else:
        draft.put("workload.prompt_tokens", prompt.as_int(minimum=1), prompt)
    new, total = arguments.take(*_NEW), arguments.take("max_length")
    if new is not None:
        draft.put("workload.output_tokens", new.as_int(), new)
    elif total is not None and prompt is not None:
        tokens = max(0, total.as_int(minimum=1) - prompt.as_int(minimum=1))
        draft.put("workload.output_tokens", tokens, total)
    else:
        default = make_default("max_new_tokens", 20, _SOURCE)
        draft.put("workload.output_tokens", 20, default)


def _read_sampling(arguments: Settings, draft: Draft) -> None:
    beams = arguments.take("num_beams")
    if beams is not None:
        draft.put("workload.num_beams", beams.as_int(minimum=1), beams)
    returned = arguments.take("num_return_sequences")
    if returned is not None and returned.as_int(minimum=1) > 1:
        draft.ignore(returned, "say as many sequences in the batch: each has a cache of its own")
    samples = arguments.take("do_sample")
    if samples is not None:
        draft.put("workload.sampling", "sample" if samples.as_bool() else "greedy", samples)
    cache = arguments.take("cache_implementation")
    if cache is not None:
        draft.put("workload.cache", cache.as_choice(_CACHES), cache)
    for name in ("assistant_model", "prompt_lookup_num_tokens", "cache_config"):
        setting = arguments.take(name)
        if setting is not None:
            draft.ignore(setting, "its bytes have no term")


def _read_weights(model: Settings, name: str | None, draft: Draft, handed_in: HandedIn) -> None:
    """Set the format of weights and cache, which the cache shares."""
    dtype_setting = model.take("dtype", "torch_dtype")
    if dtype_setting is not None and str(dtype_setting.value).casefold() != "auto":
        dtype: str | None = dtype_setting.as_choice(DTYPES)
    else:
        checkpoint = handed_in.find_checkpoint(name)
        dtype = None if checkpoint is None else DTYPES.get(checkpoint.dtype or "")
        source = f"transformers {TRANSFORMERS}, from_pretrained takes the checkpoint's dtype"
        dtype_setting = dtype_setting or make_default("dtype", "auto", source)
    if dtype is None:
        dtype = ask_dtype("workload.weight_dtype", handed_in.find_checkpoint(name), draft)
    draft.put("workload.weight_dtype", dtype, dtype_setting)
    draft.put("workload.kv_cache_dtype", dtype)
    for key, word in (("load_in_4bit", "nf4"), ("load_in_8bit", "int8")):
        setting: Setting | None = model.take(f"quantization_config.{key}", key)
        if setting is not None and setting.as_bool():
            draft.put("workload.quantization", word, setting)


READERS = {
    Launcher.GENERATE: Reader(
        launcher=Launcher.GENERATE,
        versions={"transformers": TRANSFORMERS},
        knows_options=False,
        read=read_generation,
        marks=frozenset({"max_new_tokens", "prompt_tokens", "do_sample", "num_beams"}),
    )
}
