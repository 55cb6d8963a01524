"""Backends: frameworks that train and engines that serve, each as one value."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from service.estimator.values.dtypes import DType
from service.estimator.values.engine_versions import Version
from service.estimator.values.workload import Quantization


class Task(StrEnum):
    """Kind of question that a backend answers."""

    TRAIN = "train"
    SERVE = "serve"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """Framework or engine, with the module of its answers."""

    name: str
    answers: Mapping[Task, str]
    """Modules whose ``answer`` estimates a question; each is loaded when one is asked."""
    weight_formats: tuple[Quantization, ...] = ()
    """Formats of fewer bits that it serves any model in, the wider one first."""
    cache_dtypes: tuple[DType, ...] = ()
    """Number formats of a served cache beside that of the weights."""
    splits_replicas: bool = False
    """Whether a replica can be spread over tensor-parallel ranks, whatever the model."""
    sized_by_length: bool = False
    """Whether ``max_model_len`` changes how many bytes it needs."""
    follows_request: bool = False
    """Whether its sequences are as long as the request's where no ``max_model_len`` is said."""
    starts_with_any_room: bool = False
    """Whether it starts without room for the longest request that it accepts."""
    owns_cache: bool = False
    """Whether it lays out the cache by itself."""
    owns_kernels: bool = False
    """Whether it chooses the attention kernel by itself."""
    counts_cuda_graphs: bool = False
    """Whether its CUDA graphs are counted."""
    default_port: int | None = None
    """Port of its server; None of a backend that has none."""
    newest_release: Version | None = None
    """The newest release that was read; None where releases are not told apart."""

    @property
    def tasks(self) -> frozenset[Task]:
        """Kinds of questions that it answers."""
        return frozenset(self.answers)
