"""The glossary: few words, and the code has every one that it names."""

import ast
import re

from tests.unit.docs.pages import ROOT, iter_rows, read_page

GLOSSARY = read_page("docs/glossary.md")
MAX_TERMS = 40
_CODE_WORD = re.compile(r"\[`(\w+)`\]\(\.\./([\w/]+\.py)\)")


def _list_terms() -> list[tuple[str, ...]]:
    return [row for row in iter_rows(GLOSSARY) if row[0] != "word"]


def test_it_is_small_enough_to_be_read() -> None:
    """At most 40 terms, sorted, each with a meaning."""
    words = [row[0] for row in _list_terms()]

    assert 20 <= len(words) <= MAX_TERMS
    assert words == sorted(words, key=str.lower)
    assert all(row[1] for row in _list_terms())


def test_the_code_has_the_words_that_it_names() -> None:
    """Each code word is bound at the top of the module that it links to."""
    words = _CODE_WORD.findall(GLOSSARY)

    assert len(words) >= 20
    for name, file in words:
        assert name in _list_bound_names(file), f"{file} has no {name}"


def _list_bound_names(file: str) -> set[str]:
    names: set[str] = set()
    for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names.update(target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return names
