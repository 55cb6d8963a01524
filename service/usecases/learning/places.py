"""Environments in which a question may have been measured, the nearest first."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from service.calibration.environment import EnvironmentKey, split_place


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Environments of a place.

    ``in_cluster`` are those of a named cluster's GPUs alone, ``common`` those of such GPUs
    anywhere, and ``of_gpu`` what runs on these.
    """

    in_cluster: tuple[EnvironmentKey, ...]
    of_gpu: tuple[EnvironmentKey, ...]
    common: tuple[EnvironmentKey, ...]


def list_places(environment_keys: Mapping[str, EnvironmentKey], place: str) -> Places:
    """Return the environments of a place, by those that run now.

    A cluster that was never measured has none of its own.
    """
    gpu, cluster = split_place(place)
    gpu_key = environment_keys.get(gpu)
    cluster_key = environment_keys.get(place) if cluster else None
    # What runs in a cluster may have been measured elsewhere, where by now something else runs.
    running = [key for key in (cluster_key and cluster_key.anywhere, gpu_key) if key is not None]
    of_gpu = tuple(dict.fromkeys(_iter_drivers(running)))
    libraries = () if cluster_key is None else (cluster_key.libraries,)
    in_cluster = () if cluster_key is None else _iter_kernels(_iter_drivers([cluster_key]))
    # What a GPU itself was measured to allocate has its kernels' workspaces in it, and comes before
    # what libraries count.
    common = (*_iter_kernels(of_gpu), *libraries, environment_keys[""])
    return Places(
        in_cluster=tuple(dict.fromkeys(in_cluster)),
        of_gpu=of_gpu,
        common=tuple(dict.fromkeys(common)),
    )


def _iter_drivers(keys: Iterable[EnvironmentKey]) -> Iterator[EnvironmentKey]:
    """Yield environments, each before that of who did not tell a driver."""
    for key in keys:
        yield key
        yield key.without_driver


def _iter_kernels(keys: Iterable[EnvironmentKey]) -> Iterator[EnvironmentKey]:
    """Yield environments, each after that of cuDNN's kernel.

    Where a question was measured in both, it is the one that torch chooses by itself.
    """
    for key in keys:
        yield key.with_cudnn
        yield key
