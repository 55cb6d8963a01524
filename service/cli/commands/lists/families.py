"""List the families of models and what is modelled of each, or show one with every refusal and its
reason; offline unless a server is named.
"""

import argparse
from difflib import get_close_matches

from service.base.errors import InvalidRequestError
from service.catalog.families import list_families
from service.catalog.models import ModelEntry, list_recorded_models
from service.cli.answer_source import add_source
from service.cli.lists import Document, list_documents
from service.cli.printing import print_json
from service.cli.views.tables import add_title, make_console, make_table
from service.contract.to_answer.families import build_family

_COLUMNS = ("family", "kind", "models", "trained by", "served by")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the family that is shown."""
    parser.add_argument("name", nargs="?", help="show this family: the model_type of a config.json")
    parser.add_argument(
        "--json", action="store_true", help="print the items as GET /v1/families sends them"
    )
    add_source(parser, "families")


def run(options: argparse.Namespace) -> int:
    """Print the families, or one of them."""
    recorded = _list_recorded(options.name)
    if recorded and not options.json:
        _show_recorded(recorded)
        return 0
    items = list_documents(options, "families", lambda: map(build_family, list_families()))
    chosen = items if options.name is None else [_find(items, options.name)]
    if options.json:
        print_json(chosen)
    elif options.name is not None:
        _show_one(chosen[0])
    else:
        rows = [_format_row(item) for item in chosen]
        make_console().print(make_table(_COLUMNS, rows, right=("models",)))
        _note_recorded()
    return 0


def _list_recorded(name: str | None) -> list[ModelEntry]:
    """Return the models that recordings of a type answer for; none without a name."""
    if name is None:
        return []
    folded = _fold(name)
    return [model for model in list_recorded_models() if _fold(model.model_type) == folded]


def _show_recorded(models: list[ModelEntry]) -> None:
    screen = make_console()
    screen.print(f"{models[0].model_type}: recorded", style="bold")
    names = ", ".join(model.name for model in models)
    question = f"headroom fit {models[0].name} --gpu L40S --task train --sequence-length 2048"
    origin = (
        "its passes come with Headroom as recordings of transformers' own code; what a recording "
        f"does not hold is refused where it is asked: {question}"
    )
    for text in (f"models of the catalogue: {names}", origin):
        screen.print(text, markup=False, soft_wrap=True)


def _note_recorded() -> None:
    types = {model.model_type for model in list_recorded_models()}
    make_console().print(
        f"{len(types)} further types are answered from recordings (headroom families TYPE); a "
        "worker records any other type of transformers when it is asked about",
        markup=False,
        soft_wrap=True,
    )


def _find(items: list[Document], name: str) -> Document:
    """Return a family by its name; raises InvalidRequestError with the nearest."""
    named = {_fold(item["name"]): item for item in items}
    folded = _fold(name)
    if folded not in named:
        near = [named[name]["name"] for name in get_close_matches(folded, named, n=3)]
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        message = f"there is no family {name!r}.{hint}"
        raise InvalidRequestError(message)
    return named[folded]


def _fold(name: str) -> str:
    return name.casefold().replace("_", "-").replace(" ", "-")


def _format_row(item: Document) -> tuple[str, ...]:
    return (
        item["name"],
        item["group"],
        str(len(item["models"])),
        _format_training(item),
        ", ".join(item["serving"]),
    )


def _format_training(item: Document) -> str:
    return "; ".join(f"{one['framework']} {', '.join(one['methods'])}" for one in item["training"])


def _show_one(item: Document) -> None:
    screen = make_console()
    screen.print(f"{item['name']}: {item['group']}", style="bold")
    for label, text in (
        ("trained by", _format_training(item)),
        ("served by", ", ".join(item["serving"])),
        ("models of the catalogue", ", ".join(item["models"])),
    ):
        screen.print(f"{label}: {text or 'none'}", markup=False, soft_wrap=True)
    rows = [
        (one["task"], one["runner"], one["method"] or "", one["reason"]) for one in item["refused"]
    ]
    if rows:
        columns = ("task", "with", "method", "reason")
        screen.print(add_title("refused", make_table(columns, rows)))
