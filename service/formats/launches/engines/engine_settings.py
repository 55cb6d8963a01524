"""Settings of serving engines, as their readers share them."""

import json
import re
from collections.abc import Iterable, Mapping

from service.formats.launches.sources.argv import Grammar, read_argv
from service.formats.launches.sources.documents import flatten
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.trainers.number_formats import DTYPES
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings, is_default, make_default

_PAIRS = re.compile(r"\w+=\d+(,\w+=\d+)*")
"""An object as vLLM took it before 0.9: ``image=4,video=0``."""


def gather_settings(
    handed_in: HandedIn,
    draft: Draft,
    tokens: Iterable[str],
    grammar: Grammar,
    *,
    config: tuple[str, ...],
    file_wins: bool = False,
) -> Settings:
    """Return all settings by names with underscores, whoever says them.

    Words of the command win over its file (or it over them, ``file_wins``): that of an option in
    ``config``, or every document that was handed in. Raises LaunchFormatError where the command
    names a file that was not handed in.
    """
    where = "command" if handed_in.command is None else handed_in.command.where
    command = read_argv(tuple(tokens), grammar, where=where)
    option = _peek_any(command, config)
    documents = list(handed_in.documents.values())
    if option is not None:
        document = handed_in.find_document(option.as_text())
        if document is None:
            raise LaunchFormatError(
                f"{option.key} names {option.as_text()}, which was not handed in; hand it in, too",
                where=option.where,
                field="files",
            )
        documents = [document]
        draft.note(option, "the file whose settings are read")
    sources = [
        command,
        *(_spell_alike(source, grammar) for source in (handed_in.arguments, *documents)),
    ]
    if file_wins:
        _warn_of_overwritten(draft, command, sources[1:])
        sources.reverse()
    merged = sources[0]
    for source in sources[1:]:
        merged = merged.merge(source)
    merged.take(*config)
    return merged


def get_arguments(
    handed_in: HandedIn, program: str, commands: Iterable[str], *, expected: str
) -> tuple[str, ...]:
    """Return the words after a program and its command.

    Those of another program, such as its server's module, have no command. Raises LaunchFormatError
    where the command is none of ``commands``, which start an engine.
    """
    command = handed_in.command
    if command is None:
        return ()
    if command.program != program:
        return command.arguments
    if command.arguments[:1] and command.arguments[0] in commands:
        return command.arguments[1:]
    name = " ".join((program, *command.arguments[:1]))
    message = f"{name} starts no engine; expected {expected}"
    raise LaunchFormatError(message, where="command", field="command")


def put_formats(
    draft: Draft,
    settings: Settings,
    *,
    quantizations: Mapping[str, str],
    caches: Mapping[str, str],
) -> None:
    """Set the formats of quantised weights, and of keys and values."""
    quantization = settings.take("quantization")
    if quantization is not None:
        word = str(quantization.value).casefold()
        if word in quantizations:
            draft.put("workload.quantization", quantizations[word], quantization)
        else:
            draft.ignore(
                quantization, "the format that the checkpoint's own config says is evaluated"
            )
    cache = settings.take("kv_cache_dtype")
    if cache is None:
        return
    word = str(cache.value).casefold()
    if word == "auto":
        draft.note(cache, "the cache has the format of the weights, or the checkpoint's own")
    elif word in caches:
        draft.put("workload.kv_cache_dtype", caches[word], cache)
    else:
        draft.ignore(cache, f"no term for such a cache; there is one for {', '.join(caches)}")


def put_state_dtype(draft: Draft, settings: Settings, name: str) -> None:
    """Set the format of recurrent states; ``auto`` is the release's."""
    setting = settings.take(name)
    if setting is None:
        return
    if str(setting.value).casefold() == "auto":
        draft.note(setting, "states have the format that the release gives them")
    else:
        dtypes = {name: DTYPES[name] for name in ("float32", "bfloat16", "float16")}
        draft.put("workload.state_dtype", setting.as_choice(dtypes), setting)


def _warn_of_overwritten(draft: Draft, command: Settings, files: Iterable[Settings]) -> None:
    """Name words of the command that its file says otherwise."""
    for file in files:
        for name in command:
            typed, overwriting = command.peek(name), file.peek(name)
            if typed and overwriting and str(typed.value) != str(overwriting.value):
                draft.warn(
                    f"{overwriting.where}: {overwriting.key} {overwriting.value} wins over "
                    f"{typed.key} {typed.value} of the command; leave one out"
                )


def _peek_any(settings: Settings, names: Iterable[str]) -> Setting | None:
    return next((setting for name in names if (setting := settings.peek(name)) is not None), None)


def _spell_alike(settings: Settings, grammar: Grammar) -> Settings:
    """Return settings under the names that a command's have."""
    spelt = {name.replace("-", "_"): setting for name, setting in settings.take_all().items()}
    return Settings({grammar.short.get(name, name): setting for name, setting in spelt.items()})


def read_object(settings: Settings, name: str) -> Settings | None:
    """Return the keys of an object, nested or as JSON.

    None where it is unset.
    """
    nested = settings.take_group(name)
    setting = settings.take(name)
    if setting is not None:
        nested = nested.merge(_parse_object(setting))
    return nested if len(nested) else None


def _parse_object(setting: Setting) -> Settings:
    value = setting.value
    if isinstance(value, str) and _PAIRS.fullmatch(value):
        value = dict(pair.split("=") for pair in value.split(","))
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise setting.refuse("a JSON object") from None
    if not isinstance(value, Mapping):
        raise setting.refuse("a JSON object")
    leaves = flatten(value, setting.where)
    return Settings(
        {
            name: Setting(key=f"{setting.key}.{name}", value=leaf.value, where=setting.where)
            for name, leaf in leaves.take_all().items()
        }
    )


def put_int(
    draft: Draft, settings: Settings, field: str, *names: str, minimum: int = 1
) -> int | None:
    """Set a field to a whole number, if set; return it."""
    setting = settings.take(*names)
    if setting is None:
        return None
    value = setting.as_int(minimum=minimum)
    draft.put(field, value, setting)
    return value


def put_switch(draft: Draft, settings: Settings, field: str, *names: str) -> None:
    """Set a field that a switch turns on."""
    setting = settings.take(*names)
    if setting is not None:
        draft.put(field, setting.as_bool(), setting)


def put_fraction(draft: Draft, settings: Settings, *names: str) -> bool:
    """Set the share of memory; return whether it is said."""
    setting = settings.take(*names)
    if setting is None:
        return False
    value = setting.as_float()
    if not 0.0 < value <= 1.0:
        raise setting.refuse("a share of the memory above 0 and up to 1")
    draft.put("workload.gpu_memory_fraction", value, setting)
    return True


def put_model(draft: Draft, settings: Settings, *names: str) -> str | None:
    """Set the model; ask for it where nothing names it."""
    setting = settings.take(*names)
    if setting is None:
        draft.ask("model", "the launch names no model")
        return None
    draft.put("model", setting.as_text(), setting)
    return setting.as_text()


def put_weight_dtype(
    draft: Draft,
    settings: Settings,
    handed_in: HandedIn,
    model: str | None,
    *,
    source: str,
    of_fp32: str | None = "bf16",
) -> None:
    """Set the format of the weights: ``auto`` is the checkpoint's.

    ``of_fp32`` is what ``auto`` makes of weights in fp32, None where that is not known; ``source``
    says so.
    """
    setting = settings.take("dtype")
    words = {
        **{word: DTYPES[word] for word in ("bfloat16", "float16", "float32")},
        "half": "fp16",
        "float": "fp32",
        "auto": "auto",
    }
    dtype = "auto" if setting is None else setting.as_choice(words)
    setting = setting or make_default("dtype", "auto", source)
    if dtype == "auto":
        checkpoint = handed_in.find_checkpoint(model)
        # A config without a format has fp32's, as transformers' own default is.
        loaded = None if checkpoint is None else DTYPES.get(checkpoint.dtype or "float32")
        loaded = of_fp32 if loaded == "fp32" else loaded
        if loaded is None:
            why = "the weights are loaded in the checkpoint's own format, which is not known"
            # A model that nobody knows is asked for, and its config says the format with it.
            follows = checkpoint is None and model is not None
            draft.ask("workload.weight_dtype", why, ("bf16", "fp16", "fp32"), is_assumed=follows)
            if follows:
                draft.put("workload.weight_dtype", "bf16")
            return
        dtype = loaded
    draft.put("workload.weight_dtype", dtype, setting)


def ask_requests(draft: Draft, *, sequences: str, tokens: str) -> None:
    """Ask for the load.

    A launch says what an engine accepts, not what it gets.
    """
    if draft.get("workload.num_sequences") is None:
        draft.ask("workload.num_sequences", f"how many run at once is the requests'{sequences}")
    if draft.get("workload.prompt_tokens") is None:
        draft.ask("workload.prompt_tokens", f"the tokens of a prompt are the requests'{tokens}")
    if draft.get("workload.output_tokens") is None:
        why = "the tokens of an answer are the requests'; none are counted until they are said"
        draft.ask("workload.output_tokens", why, is_assumed=True)


def ignore_settings(draft: Draft, settings: Settings, reasons: Mapping[str, str]) -> None:
    """Ignore settings that are left and not off, with reasons."""
    left = {name for name, _ in settings.list_left()}
    for name, reason in reasons.items():
        group = settings.take_group(name)
        for inner in group:
            nested = group.take(inner)
            if nested is not None and f"{name}.{inner}" in left:
                draft.ignore(nested, reason)
        setting = settings.take(name)
        if setting is None or name not in left:
            continue
        if str(setting.value).casefold() in {"false", "0", "0.0"}:
            draft.drop(setting)
        else:
            draft.ignore(setting, reason)


def describe_limit(setting: Setting | None, prefix: str) -> str:
    """Return the end of a sentence about a limit."""
    if setting is None or is_default(setting):
        return ""
    return f"; {prefix} {setting.value} by {setting.key}"
