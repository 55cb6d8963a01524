"""Environment of a measurement: releases, driver and GPU.

Another environment has another curve.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

REFERENCE_VERSIONS: Mapping[str, str] = {"torch": "2.13", "transformers": "5.23", "peft": "0.21"}
"""Releases whose model code the estimator follows and the worker runs.

A question means these where no worker has registered.
"""

_UNKNOWN = "unknown"
_CUDNN = "cudnn"
_WITH_CUDNN = ", cuDNN attention"
_IN = "@"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Library releases, driver and GPU of a measurement.

    Releases are major and minor versions, a driver is named as it names itself, and the GPU has the
    catalogue's name.

    CUDA's own libraries come with torch. Without a GPU they are those of a run on a CPU or on fake
    tensors, whose allocated bytes the libraries alone decide.
    """

    torch: str = REFERENCE_VERSIONS["torch"]
    transformers: str = REFERENCE_VERSIONS["transformers"]
    peft: str = REFERENCE_VERSIONS["peft"]
    gpu: str | None = None
    driver: str | None = None
    cudnn_attention: bool = False
    """Whether attention ran in cuDNN's kernel, whose scratch is its own: on Hopper and Blackwell
    torch asks it first (cuDNN above 9.15, aten/native/transformers/cuda/sdp_utils.cpp of 2.13)
    unless ``TORCH_CUDNN_SDPA_DEPRIORITIZED`` is set.
    """

    @property
    def name(self) -> str:
        """Full description in text form."""
        releases = f"torch {self.torch}, transformers {self.transformers}, peft {self.peft}"
        if self.gpu is None:
            return releases
        return (
            f"{self.gpu}, driver {self.driver or _UNKNOWN}, "
            f"{releases}{_WITH_CUDNN if self.cudnn_attention else ''}"
        )

    @property
    def libraries(self) -> "Environment":
        """The same releases without a GPU."""
        return replace(self, gpu=None, driver=None, cudnn_attention=False)

    def in_cluster(self, cluster: str) -> "Environment":
        """Return the environment of a cluster's GPUs alone."""
        return self if self.gpu is None else replace(self, gpu=name_place(self.gpu, cluster))

    @property
    def key(self) -> "EnvironmentKey":
        """Identity of the environment, of which calibration keys are made."""
        return make_environment_key(self.name, gpu=self.gpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentKey:
    """Identity of an environment: its name and digest.

    The name is all that is left of an environment that nobody runs any more. ``gpu`` is a place:
    the catalogue's name, with its cluster where it is of a named one.
    """

    name: str
    digest: str
    gpu: str | None = None

    @property
    def has_driver(self) -> bool:
        """Whether the environment has a GPU with a known driver."""
        return self.gpu is not None and not self.name.startswith(f"{self.gpu}, driver {_UNKNOWN}, ")

    @property
    def without_driver(self) -> "EnvironmentKey":
        """The same releases and GPU with an unknown driver."""
        releases = f"torch {self.name.rpartition('torch ')[2]}"
        return (
            self
            if self.gpu is None
            else make_environment_key(f"{self.gpu}, driver {_UNKNOWN}, {releases}", gpu=self.gpu)
        )

    @property
    def anywhere(self) -> "EnvironmentKey":
        """The same releases and driver in any cluster."""
        if self.gpu is None:
            return self
        gpu, _ = split_place(self.gpu)
        return make_environment_key(f"{gpu}{self.name.removeprefix(self.gpu)}", gpu=gpu)

    @property
    def libraries(self) -> "EnvironmentKey":
        """The same releases without a GPU."""
        releases = self.without_cudnn.name.rpartition("torch ")[2]
        return self if self.gpu is None else make_environment_key(f"torch {releases}")

    @property
    def without_cudnn(self) -> "EnvironmentKey":
        """The same environment without cuDNN attention."""
        return make_environment_key(self.name.removesuffix(_WITH_CUDNN), gpu=self.gpu)

    @property
    def with_cudnn(self) -> "EnvironmentKey":
        """The same environment with cuDNN attention.

        Without a GPU attention cannot run in cuDNN's kernel.
        """
        return (
            self
            if self.gpu is None
            else make_environment_key(f"{self.without_cudnn.name}{_WITH_CUDNN}", gpu=self.gpu)
        )

    def match_kernel(self, environment: str) -> "EnvironmentKey":
        """Return this environment with the attention kernel of a measured one."""
        return self.with_cudnn if environment.endswith(_WITH_CUDNN) else self.without_cudnn

    def build_curve_key(self, curve: str) -> str:
        """Return the key of a curve in this environment."""
        return f"{curve}:{self.digest}"


def name_place(gpu: str, cluster: str) -> str:
    """Return the name of a GPU's place: a cluster, or anywhere.

    What is measured in a named cluster is learnt of both. Neither name has an ``@`` in it.
    """
    return f"{gpu}{_IN}{cluster}" if cluster else gpu


def split_place(place: str) -> tuple[str, str]:
    """Return the GPU and the cluster of a place, empty if anywhere."""
    gpu, _, cluster = place.partition(_IN)
    return gpu, cluster


def make_environment_key(name: str, *, gpu: str | None = None) -> EnvironmentKey:
    """Build the key of an environment from its name."""
    return EnvironmentKey(name=name, digest=sha256(name.encode()).hexdigest()[:16], gpu=gpu)


def parse_environment(facts: Mapping[str, object], *, gpu: str | None = None) -> Environment | None:
    """Parse the environment that a measurement or a worker reports.

    ``None`` where it does not tell its releases. ``gpu`` is the catalogue's name for the device.
    What was measured without adapters need not have PEFT.
    """
    torch, transformers = _read_text(facts, "torch"), _read_text(facts, "transformers")
    if torch is None or transformers is None:
        return None
    return Environment(
        torch=_get_minor_version(torch),
        transformers=_get_minor_version(transformers),
        peft=_get_minor_version(_read_text(facts, "peft") or REFERENCE_VERSIONS["peft"]),
        gpu=gpu,
        driver=_read_text(facts, "driver"),
        cudnn_attention=gpu is not None and _read_text(facts, "attention_kernel") == _CUDNN,
    )


def _read_text(facts: Mapping[str, object], name: str) -> str | None:
    value = facts.get(name)
    return str(value) if value is not None else None


def _get_minor_version(version: str) -> str:
    """Return the major and minor version: ``2.13.0+cpu`` is a 2.13."""
    return ".".join(version.split(".")[:2])
