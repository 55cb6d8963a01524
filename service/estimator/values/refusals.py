"""Refusal of values without a term.

A refusal names the value, and the values that have one.
"""

from service.estimator.values.errors import NotModelledError


def check_modelled(value: object, field: str, modelled: tuple[object, ...]) -> None:
    """Raise NotModelledError for a value without a term.

    ``modelled`` are the values that have one.
    """
    if value not in modelled:
        name = field.rpartition(".")[2]
        raise NotModelledError(
            f"{name} {str(value)!r}",
            field=field,
            modelled=[str(word) for word in modelled if word is not None],
        )
