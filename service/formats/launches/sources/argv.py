"""Words of a command line as settings."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from service.formats.launches.sources.limits import check_words
from service.formats.launches.values.settings import Setting, Settings

_NUMBER = re.compile(r"-[0-9.]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """Grammar of a program's words.

    ``flags`` take no value unless the next word is a truth value; ``short`` are other spellings
    (``tp``: ``tensor_parallel_size``) without their hyphens; ``many`` take every word up to the
    next option; ``positionals`` name the words that belong to no option, in their order.
    ``abbreviated`` are options that may be cut short, as ``argparse`` takes them. Where the program
    ``has_clusters``, letters share a word, the last with its value: ``-lN2`` (``getopt(3)``).
    """

    flags: frozenset[str] = frozenset()
    short: Mapping[str, str] = field(default_factory=dict)
    many: frozenset[str] = frozenset()
    positionals: tuple[str, ...] = ()
    abbreviated: tuple[str, ...] = ()
    has_clusters: bool = False


def read_argv(tokens: Sequence[str], grammar: Grammar | None = None, *, where: str) -> Settings:
    """Return the settings of options ``--name value``, ``--name=value`` and ``-n value``.

    Names have underscores. An option without a value is True, ``--no-name`` is ``name`` False, one
    that comes again wins over the earlier. Words that have no name are ``argument_1``, ….
    """
    grammar = grammar or Grammar()
    check_words(tokens, where)
    tokens = [part for word in tokens for part in split_cluster(word, grammar)]
    settings: dict[str, Setting] = {}
    positionals = iter([*grammar.positionals])
    unnamed = 0
    index = 0
    while index < len(tokens):
        word = tokens[index]
        index += 1
        if not _is_option(word):
            name = next(positionals, None)
            if name is None:
                unnamed += 1
                name = f"argument_{unnamed}"
            settings[name] = Setting(key=name, value=word, where=where)
            continue
        text, equals, value = word.lstrip("-").partition("=")
        name = _get_name(text, grammar, is_long=word.startswith("--"))
        if equals:
            settings[name] = Setting(key=_spell(word), value=value, where=where)
            continue
        following = _take_values(tokens[index:], name, grammar)
        index += len(following)
        if not following and name.startswith("no_") and name not in grammar.flags:
            settings[name[3:]] = Setting(key=_spell(word), value=False, where=where)
            continue
        value_shown: object = True
        if following:
            value_shown = list(following) if name in grammar.many else following[0]
        settings[name] = Setting(key=_spell(word), value=value_shown, where=where)
    return Settings(settings)


def split_cluster(word: str, grammar: Grammar) -> list[str]:
    """Return the options of a word: ``-l`` and ``-N=2`` of ``-lN2``."""
    text = word[1:]
    plain = text.partition("=")[0]
    is_cluster = grammar.has_clusters and word.startswith("-") and len(plain) > 1
    if not is_cluster or word.startswith("--") or plain in grammar.flags | grammar.short.keys():
        return [word]
    options: list[str] = []
    for index, letter in enumerate(text):
        name = grammar.short.get(letter, letter)
        if name in grammar.flags:
            options.append(f"-{letter}")
        elif letter in grammar.short:
            value = text[index + 1 :]
            return [*options, f"-{letter}={value}" if value else f"-{letter}"]
        else:
            return [word]
    return options


def _get_name(text: str, grammar: Grammar, *, is_long: bool) -> str:
    """Return the name of an option, its object's key after a dot.

    Long options alone may be cut short.
    """
    if text in grammar.short:
        return grammar.short[text]
    name = text.replace("-", "_")
    longer = [full for full in grammar.abbreviated if full.startswith(name)]
    if is_long and len(longer) == 1 and name not in grammar.flags:
        return longer[0]
    head, dot, key = name.partition(".")
    return f"{grammar.short[head]}.{key}" if dot and head in grammar.short else name


def _take_values(tokens: Sequence[str], name: str, grammar: Grammar) -> list[str]:
    """Return the words that belong to an option."""
    values: list[str] = []
    for word in tokens:
        if _is_option(word):
            break
        values.append(word)
        if name not in grammar.many:
            break
    is_flag = name in grammar.flags and name not in grammar.many
    if name.startswith("no_") and name[3:] in grammar.flags:
        return []
    if is_flag and values and values[0].casefold() not in {"true", "false"}:
        return []
    return values


def _is_option(word: str) -> bool:
    return word.startswith("-") and word not in {"-", "--"} and _NUMBER.match(word) is None


def _spell(word: str) -> str:
    return word.partition("=")[0]
