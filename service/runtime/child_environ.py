"""Environment of processes that build strangers' models.

A probe and a recorder run what a config describes, so they get what PyTorch, CUDA and Python need
and none of the service's secrets: neither the database's URL nor keys of clouds and hubs.
"""

from collections.abc import Mapping

EXTRA_VARIABLE = "HEADROOM_PROBE_ENVIRONMENT"
"""Names beyond the list, separated by commas: what an operator hands to probes knowingly."""
_NAMES = frozenset(
    {
        "HEADROOM_LOG_LEVEL",
        "HF_DATASETS_OFFLINE",
        "HF_HOME",
        "HF_HUB_CACHE",
        "HF_HUB_OFFLINE",
        "HOME",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TEMP",
        "TERM",
        "TMP",
        "TMPDIR",
        "TRANSFORMERS_OFFLINE",
        "TZ",
        "USER",
        "VIRTUAL_ENV",
    }
)
_PREFIXES = (
    "CUBLAS_",
    "CUDA_",
    "CUDNN_",
    "GLIBC_",
    "GLOO_",
    "GOMP_",
    "HIP_",
    "HSA_",
    "KMP_",
    "LC_",
    "LD_",
    "MALLOC_",
    "MKL_",
    "NCCL_",
    "NUMEXPR_",
    "NVIDIA_",
    "OMP_",
    "OPENBLAS_",
    "OTEL_",
    "PYTHON",
    "PYTORCH_",
    "ROCM_",
    "ROCR_",
    "SSL_CERT_",
    "TORCH",
    "TRITON_",
    "UCX_",
    "XDG_",
)
_SECRET_ENDINGS = ("_HEADERS", "_KEY", "_PASSWORD", "_SECRET", "_TOKEN")
"""What holds credentials all the same, as those of a telemetry backend in its headers."""


def select_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a child that builds strangers' models may know of ``environ``."""
    extra = {name.strip() for name in environ.get(EXTRA_VARIABLE, "").split(",")}
    return {
        name: value
        for name, value in environ.items()
        if name in _NAMES
        or name in extra
        or (name.startswith(_PREFIXES) and not name.endswith(_SECRET_ENDINGS))
    }
