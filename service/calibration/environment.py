"""What a measurement ran on and with: releases, driver, GPU. Another one has another curve."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

REFERENCE_VERSIONS: Mapping[str, str] = {"torch": "2.13", "transformers": "5.23", "peft": "0.21"}
"""The releases whose model code the estimator follows and the worker runs; a question means these where no worker is there."""

_UNKNOWN = "unknown"
_CUDNN = "cudnn"
_WITH_CUDNN = ", cuDNN attention"


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
    cudnn_attention: bool = False
    """Whether attention ran in cuDNN's kernel, whose scratch is its own: on Hopper and Blackwell torch asks it first (cuDNN
    above 9.15, aten/native/transformers/cuda/sdp_utils.cpp of 2.13) unless ``TORCH_CUDNN_SDPA_DEPRIORITIZED`` is set."""

    @property
    def name(self) -> str:
        """Everything that it is, in words."""
        releases = f"torch {self.torch}, transformers {self.transformers}, peft {self.peft}"
        if self.gpu is None:
            return releases
        return f"{self.gpu}, driver {self.driver or _UNKNOWN}, {releases}{_WITH_CUDNN if self.cudnn_attention else ''}"

    @property
    def libraries(self) -> "Environment":
        """The same releases without a GPU."""
        return replace(self, gpu=None, driver=None, cudnn_attention=False)

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

    @property
    def plain(self) -> "Place":
        """The same, whichever kernel attention ran in."""
        return place_named(self.name.removesuffix(_WITH_CUDNN), gpu=self.gpu)

    @property
    def with_cudnn(self) -> "Place":
        """The same where attention ran in cuDNN's kernel; without a GPU it cannot."""
        return self if self.gpu is None else place_named(f"{self.plain.name}{_WITH_CUDNN}", gpu=self.gpu)

    def alike(self, environment: str) -> "Place":
        """Return this place with the kernel of an environment that was measured."""
        return self.with_cudnn if environment.endswith(_WITH_CUDNN) else self.plain

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
        cudnn_attention=gpu is not None and _text(found, "attention_kernel") == _CUDNN,
    )


def _text(found: Mapping[str, object], name: str) -> str | None:
    value = found.get(name)
    return str(value) if value is not None else None


def _minor(version: str) -> str:
    """Return major and minor: ``2.13.0+cpu`` is a 2.13."""
    return ".".join(version.split(".")[:2])
