"""Models on a hub.

Three requests tell the structure and the header of the files.
"""

import re
from collections.abc import Mapping
from functools import partial

from service.base.hub_errors import HubContentError
from service.estimator.values.errors import EstimatorError
from service.formats.checkpoints.gguf_document import join_headers
from service.formats.checkpoints.gguf_header import parse_gguf_header
from service.formats.checkpoints.repository import (
    ADAPTER,
    CONFIG,
    INDEX,
    PIPELINE,
    RepositoryFiles,
    choose_files,
    explain_adapter,
    explain_pipeline,
    shorten,
)
from service.formats.checkpoints.safetensors_header import read_safetensors_header
from service.usecases.hub.reading import HubReader
from service.usecases.hub.values import HubModel, HubReference

FIRST_RANGE = 100_000
"""Bytes that hold the header of most files; huggingface_hub asks for as many first."""
MAX_REFUSAL = 1_000
"""Characters that a refusal repeats of a header that a reader found wrong."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_QUANTIZATION = "quantization_config"


def fetch_commit(reader: HubReader, reference: HubReference) -> tuple[str, frozenset[str]]:
    """Return the commit of a revision, and its files."""
    info = reader.read_info(reference.repository, reference.revision)
    commit, siblings = info.get("sha"), info.get("siblings")
    names = frozenset(
        str(item.get("rfilename"))
        for item in (siblings if isinstance(siblings, list) else ())
        if isinstance(item, Mapping)
    )
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        message = f"the hub names no commit of {reference.repository}"
        raise HubContentError(message)
    return commit, names


def fetch_model(
    reader: HubReader, reference: HubReference, commit: str, names: frozenset[str]
) -> HubModel:
    """Return a model at a commit.

    Raises HubContentError where it is no model that can be read.
    """
    repository = reference.repository
    read_json = partial(reader.read_json_file, repository, commit)
    try:
        if reference.file is None and CONFIG not in names:
            _refuse_others(read_json, names)
        files = choose_files(names, reference.file)
        if files.gguf:
            return HubModel(
                repository=repository,
                commit=commit,
                file=files.gguf[0],
                source={"gguf": _read_gguf(reader, repository, commit, files.gguf)},
            )
        config = dict(read_json(files.config or CONFIG))
        if files.quantization is not None and config.get(_QUANTIZATION) is None:
            config[_QUANTIZATION] = read_json(files.quantization)
        index, header = _read_weights(reader, repository, commit, files)
    except EstimatorError as error:
        message = f"{repository}: {shorten(error.message, MAX_REFUSAL)}"
        field_name = "model.file" if error.field == "file" else "model.hub"
        raise HubContentError(message, errors=[{"field": field_name, "message": message}]) from None
    return HubModel(
        repository=repository,
        commit=commit,
        source={"hf_config": config},
        index=index,
        header=header,
    )


def _refuse_others(read_json: "partial[Mapping[str, object]]", names: frozenset[str]) -> None:
    """Refuse what is an adapter or a pipeline, in words."""
    if ADAPTER in names:
        raise HubContentError(explain_adapter(read_json(ADAPTER)))
    if PIPELINE in names:
        raise HubContentError(explain_pipeline(read_json(PIPELINE), {}))


def _read_gguf(
    reader: HubReader, repository: str, commit: str, parts: tuple[str, ...]
) -> dict[str, object]:
    headers = [
        parse_gguf_header(reader.open_file(repository, commit, part))  # type: ignore[arg-type]  # it is read from alone
        for part in parts
    ]
    return join_headers(headers).describe()


def _read_weights(
    reader: HubReader, repository: str, commit: str, files: RepositoryFiles
) -> tuple[Mapping[str, object] | None, Mapping[str, object] | None]:
    """Return the index of several files, or the header of one."""
    if files.weights is None:
        return None, None
    if files.weights == INDEX:
        return reader.read_json_file(repository, commit, INDEX), None
    read = partial(reader.read_range, repository, commit, files.weights)
    return None, read_safetensors_header(read, first=FIRST_RANGE)
