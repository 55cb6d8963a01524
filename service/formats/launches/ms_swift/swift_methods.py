"""Methods of ms-swift: all weights, or adapters over formats of them.

ms-swift 4.6, ``pipelines/train/tuner.py``, ``arguments/tuner_args.py`` and ``quant_args.py``.
"""

from service.formats.launches.ms_swift.swift_keys import (
    ADAPTERS,
    OF_PICTURES,
    OFF,
    SWIFT,
    UNMODELLED,
)
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings, is_unset, make_default

_SOURCE = f"ms-swift {SWIFT}, swift/arguments"
_METHODS = {"lora": "lora", "full": "full"}
_BACKENDS = {"peft": "peft", "unsloth": "unsloth"}
_BITS = {"4": "load_in_4bit", "8": "load_in_8bit"}
_DTYPES = {"float32": "fp32", "float16": "fp32", "bfloat16": "bf16"}
"""Formats of adapters: those in fp16 are cast to fp32."""
_UNOFFLOADED_BELOW = 512
"""Tokens of a row from which on Unsloth moves the inputs of layers (``unsloth/models/_utils.py``).
"""


def read_method(config: Settings, model: Settings, draft: Draft) -> Settings:
    """Return LoRA's arguments; the weights' bits are the model's."""
    method = config.take("tuner_type", "train_type") or make_default(
        "tuner_type", "lora", f"{_SOURCE}/base_args/base_args.py"
    )
    if method.key.endswith("train_type"):
        draft.warn(f"{method.key} is ms-swift 3's word: defaults are those of {SWIFT}")
    kind = method.as_choice(_METHODS)
    draft.note(method, f"what is trained: {kind}")
    _read_bits(config, model, draft, is_full=kind == "full")
    adapters = Settings()
    options = {name: config.take(key) for key, name in ADAPTERS.items()}
    dropout, dtype = config.take("lora_dropout"), config.take("lora_dtype")
    regex, targets = config.take("target_regex"), config.take("target_modules")
    backend = config.take("tuner_backend")
    if kind == "full":
        for setting in (*options.values(), dropout, dtype, regex, targets, backend):
            if setting is not None:
                draft.drop(setting)
        return adapters
    for name, setting in options.items():
        if setting is not None and str(setting.value).strip().casefold() not in OFF:
            adapters.add(name, setting)
    source = f"{_SOURCE}/tuner_args.py"
    adapters.add("r", make_default("lora_rank", 8, source))
    adapters.add("lora_dropout", dropout or make_default("lora_dropout", 0.05, source))
    adapters.add("target_modules", _read_targets(regex, targets, draft))
    if dtype is not None and not is_unset(dtype):
        draft.put("workload.lora.dtype", dtype.as_choice(_DTYPES), dtype)
    _read_backend(backend, config, draft)
    return adapters


def _read_targets(regex: Setting | None, targets: Setting | None, draft: Draft) -> Setting:
    if regex is not None and not is_unset(regex):
        if targets is not None:
            draft.drop(targets)
        return regex
    if targets is None or is_unset(targets):
        return make_default("target_modules", "all-linear", f"{_SOURCE}/tuner_args.py")
    named = [str(name) for name in targets.as_list()]
    if "all-linear" in named and len(named) > 1:
        draft.ignore(targets, "linear layers alone are counted as adapted")
        return Setting(key=targets.key, value="all-linear", where=targets.where)
    return targets


def _read_backend(backend: Setting | None, config: Settings, draft: Draft) -> None:
    """Set Unsloth's kernels, which recompute and move what layers take in."""
    if backend is None:
        return
    if backend.as_choice(_BACKENDS) == "peft":
        draft.note(backend, "adapters are PEFT's")
        return
    draft.put("workload.kernels", "unsloth", backend)
    length = config.peek("max_length")
    if length is None or length.as_int(minimum=1) >= _UNOFFLOADED_BELOW:
        draft.put("workload.offload.activations", "cpu", backend)


def _read_bits(config: Settings, model: Settings, draft: Draft, *, is_full: bool) -> None:
    """Set how weights are quantised; bits without a method quantise nothing.

    Raises LaunchFormatError for a method that has no term.
    """
    library, bits = config.take("quant_method"), config.take("quant_bits")
    double, compute = (config.take(f"bnb_4bit_{x}") for x in ("use_double_quant", "compute_dtype"))
    if library is None or is_unset(library):
        for setting in (bits, double, compute):
            if setting is not None:
                draft.drop(setting)
        return
    library.as_choice({"bnb": "bnb"})
    if is_full:
        raise library.refuse("no value beside tuner_type full: adapters alone are trained")
    if bits is None:
        raise library.refuse("quant_bits beside it, 4 or 8")
    word = bits.as_choice(_BITS)
    model.add(f"quantization_config.{word}", Setting(key=bits.key, value=True, where=bits.where))
    draft.note(library, "weights are packed by bitsandbytes")
    name = "bnb_4bit_use_double_quant"
    switch = double or make_default(name, value=True, source=f"{_SOURCE}/base_args/quant_args.py")
    model.add(f"quantization_config.{name}", switch)
    if compute is not None:
        model.add("quantization_config.bnb_4bit_compute_dtype", compute)


def name_unmodelled(config: Settings, draft: Draft) -> None:
    """Name what counts and has no word here."""
    for key, reason in UNMODELLED.items():
        setting = config.take(key)
        if setting is None:
            continue
        if is_unset(setting) or str(setting.value).strip().casefold() in OFF:
            draft.drop(setting)
        else:
            draft.ignore(setting, reason)
    for key in OF_PICTURES:
        setting = config.take(key)
        if setting is not None:
            draft.ignore(setting, "workload.inputs says which images a row has")
