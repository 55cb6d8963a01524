"""Words of a command line as a question."""

from collections.abc import Iterator

from service.contract.schemas.queries.how_many import nest_words
from service.estimator.values.errors import InvalidInputError
from service.formats.command_words import split_words

_TOP = frozenset({"gpu", "cluster", "confidence"})
_OPTION = "--"
_EXAMPLE = "llama-2-7b --gpu A100-SXM4-80GB --task train --sequence-length 4096"


def read_words(text: str) -> dict[str, object]:
    """Return words of ``headroom fit`` as a body of ``POST /v1/fit``.

    The first word is the model. Which fields a workload has, and what they may be, says whoever
    decodes the body. Raises InvalidInputError for words that are no question.
    """
    try:
        tokens = split_words(text)
    except ValueError as error:
        message = f"{text[:80]!r} cannot be split into words: {error}"
        raise InvalidInputError(message, field="question") from None
    if not tokens or tokens[0].startswith("-"):
        message = f"the question begins with the model: {_EXAMPLE}"
        raise InvalidInputError(message, field="question")
    options = dict(_iter_options(tokens[1:]))
    document = {name: options.pop(name) for name in _TOP if name in options}
    sections = nest_words(options)
    # A body of a fit has no constraints: what is one is refused as the workload's.
    workload = sections["workload"] | sections["constraints"]
    layout = {"layout": sections["layout"]} if sections["layout"] else {}
    return {"model": tokens[0], **document, "workload": workload, **layout}


def _iter_options(tokens: list[str]) -> Iterator[tuple[str, object]]:
    """Yield each option with its value; one without a value is true."""
    position = 0
    while position < len(tokens):
        word = tokens[position]
        if not word.startswith(_OPTION) or word == _OPTION:
            message = f"{word!r} is no option of a question; it is written like {_EXAMPLE}"
            raise InvalidInputError(message, field="question")
        name, has_value, value = word.removeprefix(_OPTION).partition("=")
        position += 1
        if not has_value and position < len(tokens) and not tokens[position].startswith(_OPTION):
            value, has_value = tokens[position], "="
            position += 1
        # A cluster may have a number for a name.
        read = str if name == "cluster" else _read_value
        yield name.replace("-", "_"), read(value) if has_value else True


def _read_value(text: str) -> object:
    """Return a number or truth value, else the text."""
    if text in {"true", "false"}:
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
