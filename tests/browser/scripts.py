"""Calls of scripts in a page."""

from typing import Any

from playwright.sync_api import Page


def called(page: Page, script: str, name: str, *values: object) -> Any:  # noqa: ANN401 - whatever the script returns
    """Return what a function of a script returns."""
    ask = """async ([script, name, values]) => {
      const root = document.querySelector("script[type=module]").src.replace(/js\\/.*/, "js/");
      return (await import(root + script))[name](...values);
    }"""
    return page.evaluate(ask, [script, name, values])
