"""What a measurement ran on and with: releases, driver, GPU. Another one has another curve."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

REFERENCE_VERSIONS: Mapping[str, str] = {"torch": "2.13", "transformers": "5.23", "peft": "0.21"}
"""The releases whose model code the estimator follows and the worker runs; a question means these where no worker is there."""

_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Releases by major and minor version, a driver as it names itself, and the GPU's name of the catalogue.

    CUDA's own libraries come with torch. Without a GPU they are those of a run on a CPU or on fake tensors, whose allocated
    bytes the libraries alone decide.
    """

    torch: str = REFERENCE_VERSIONS["torch"]
    transformers: str = REFERENCE_VERSIONS["transformers"]
    peft: str = REFERENCE_VERSIONS["peft"]
    gpu: str | None = None
    driver: str | None = None

    @property
    def name(self) -> str:
        """Everything that it is, in words."""
        releases = f"torch {self.torch}, transformers {self.transformers}, peft {self.peft}"
        if self.gpu is None:
            return releases
        return f"{self.gpu}, driver {self.driver or _UNKNOWN}, {releases}"

    @property
    def libraries(self) -> "Environment":
        """The same releases without a GPU."""
        return replace(self, gpu=None, driver=None)

    @property
    def place(self) -> "Place":
        """What of it keys are made of."""
        return place_named(self.name, gpu=self.gpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An environment by its name alone, which is all that is left of one that nobody runs any more."""

    name: str
    digest: str
    gpu: str | None = None

    @property
    def tells_driver(self) -> bool:
        """Whether it is that of a GPU whose driver is known."""
        return self.gpu is not None and not self.name.startswith(f"{self.gpu}, driver {_UNKNOWN}, ")

    @property
    def unknown_driver(self) -> "Place":
        """The same releases on the same GPU, where nobody told the driver."""
        releases = f"torch {self.name.rpartition('torch ')[2]}"
        return self if self.gpu is None else place_named(f"{self.gpu}, driver {_UNKNOWN}, {releases}", gpu=self.gpu)

    def address(self, curve: str) -> str:
        """Return the key of a curve in this environment."""
        return f"{curve}:{self.digest}"


def place_named(name: str, *, gpu: str | None = None) -> Place:
    """Return the place of an environment's name."""
    return Place(name=name, digest=sha256(name.encode()).hexdigest()[:16], gpu=gpu)


def environment_of(found: Mapping[str, object], *, gpu: str | None = None) -> Environment | None:
    """Return the environment that a measurement or a worker tells of; ``None`` where it does not tell its releases.

    ``gpu`` is the catalogue's name for the device. What was measured without adapters need not have PEFT.
    """
    torch, transformers = _text(found, "torch"), _text(found, "transformers")
    if torch is None or transformers is None:
        return None
    return Environment(
        torch=_minor(torch),
        transformers=_minor(transformers),
        peft=_minor(_text(found, "peft") or REFERENCE_VERSIONS["peft"]),
        gpu=gpu,
        driver=_text(found, "driver"),
    )


def _text(found: Mapping[str, object], name: str) -> str | None:
    value = found.get(name)
    return str(value) if value is not None else None


def _minor(version: str) -> str:
    """Return major and minor: ``2.13.0+cpu`` is a 2.13."""
    return ".".join(version.split(".")[:2])
