"""How a word without a term is refused: by its name, with those that have one."""

from service.estimator.values.errors import NotModelledError


def only(value: object, field: str, modelled: tuple[object, ...]) -> None:
    """Raise NotModelledError when ``value`` is none of the words that have a term."""
    if value not in modelled:
        name = field.rpartition(".")[2]
        raise NotModelledError(
            f"{name} {str(value)!r}", field=field, modelled=[str(word) for word in modelled if word is not None]
        )
