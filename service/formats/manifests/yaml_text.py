"""Objects as YAML that ``kubectl apply -f`` reads."""

from importlib import import_module
from typing import Any

from service.formats.manifests.format import Document


def as_text(document: Document) -> str:
    """Return the text of a document.

    A script as it is, an object as YAML, and a List as one YAML document for each of its items.
    """
    if isinstance(document, str):
        return document
    items = document["items"] if document.get("kind") == "List" else [document]
    # Who asks for numbers alone does not wait for the library.
    yaml: Any = import_module("yaml")

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]
        """Scripts as blocks of lines, and no aliases."""

        def ignore_aliases(self, _data: object) -> bool:
            """Write every object in full."""
            return True

    def represent_text(dumper: Any, text: str) -> object:  # noqa: ANN401 - PyYAML has no types
        style = "|" if "\n" in text else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent_text)
    text: str = yaml.dump_all(
        items, Dumper=Dumper, sort_keys=False, width=1000, allow_unicode=True, explicit_start=True
    )
    return text
