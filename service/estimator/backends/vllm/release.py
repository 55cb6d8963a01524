"""Differences between releases of vLLM.

Sorting of logits, compilation of the model, and the defaults of a server differ. Read in 0.7.3,
0.11.0, 0.17.0 and 0.19.0.
"""

from dataclasses import dataclass

from service.estimator.backends.vllm.backend import NEWEST, OLDEST
from service.estimator.memory.overheads.gpu_properties import GpuProperties
from service.estimator.values.device import Device
from service.estimator.values.engine_versions import Version, resolve_version
from service.estimator.values.units import GIB

_LONGER_CHUNKS = Version(0, 7)
_V1, _V1_ALONE = Version(0, 8), Version(0, 11)
_COMBINED_KERNELS = Version(0, 12)
_LARGE_DEFAULTS = Version(0, 9)
_TRITON_SAMPLER = Version(0, 17)
_HYBRID_POOL = Version(0, 10)
_SHARED_BUFFERS = Version(0, 15)

FP32_LOGIT = 4
SOFTMAX_BYTES = 8
"""Probabilities and the exponential noise that they are divided by, in fp32 (``random_sample``)."""
SORT_BYTES = 32
"""Sorted values 4 and their 64-bit indices 8; the sort's own: two arrays of segment and index 8 +
8, keys 4 (PyTorch, ``segmented_sort_pairs_by_full_sort``).
"""
FRACTION_PER_MILLE = 900
"""``gpu_memory_utilization``'s default (``config/cache.py``)."""
BLOCK_TOKENS, LATENT_BLOCK_TOKENS = 16, 64
"""Tokens of a block; kernels of latent attention want 64 (``v1/attention/backends/mla``)."""
_LONG_CONTEXT = 32 * 1024
"""Beyond so many tokens V0 cut prompts into chunks on its own (``engine/arg_utils.py`` of 0.7.3).
"""
_LARGE_GPU = 70 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmRelease:
    """Behaviour of one release."""

    version: Version
    supports_flash: bool = True
    """Whether the GPU runs FlashAttention, without which V0 stayed the engine while there was one.
    """

    @property
    def compiles(self) -> bool:
        """Whether the V1 engine compiles the model in pieces and captures each."""
        return self.version >= (_V1 if self.supports_flash else _V1_ALONE)

    @property
    def counts_context(self) -> bool:
        """Whether the CUDA context is inside of the budget.

        The snapshot was taken before it, until 0.7.
        """
        return self.version < _LONGER_CHUNKS

    @property
    def combines_kernels(self) -> bool:
        """Whether inductor tries combined kernels.

        They have copies of their arguments (``combo_kernels`` with torch 2.9).
        """
        return self.version >= _COMBINED_KERNELS

    @property
    def sorts_logits(self) -> bool:
        """Whether sampling sorts all logits.

        Else it searches them in a kernel of its own.
        """
        return self.version < _TRITON_SAMPLER

    @property
    def frees_windows(self) -> bool:
        """Whether layers with a window give their blocks back.

        The hybrid KV cache manager does.
        """
        return self.version >= _HYBRID_POOL

    @property
    def shares_expert_buffers(self) -> bool:
        """Whether experts work in buffers that stay.

        (``v1/worker/workspace.py``; of pull request 31531 their sizes.)
        """
        return self.version >= _SHARED_BUFFERS

    def sampler_bytes_per_logit(self, logit_bytes: int) -> int:
        """Return the bytes per logit at the peak of sampling.

        They are logits, their fp32 copy, and what picks from them.
        """
        copies = logit_bytes + (FP32_LOGIT if logit_bytes < FP32_LOGIT else 0)
        return copies + (SORT_BYTES if self.sorts_logits else SOFTMAX_BYTES)

    def get_max_num_sequences(self, device: Device) -> int:
        """Return the default of ``max_num_seqs``.

        It is 1024 on GPUs of 70 GiB and more, 256 on others and on A100.
        """
        large = self.version >= _LARGE_DEFAULTS and _is_large(device)
        return 1024 if large else 256

    def get_batched_tokens(self, device: Device, max_model_len: int) -> int:
        """Return the default of ``max_num_batched_tokens``.

        It is one prompt in V0, else 8192 on large GPUs and 2048 on others.
        """
        if self.compiles:
            return 8192 if _is_large(device) else 2048
        if max_model_len > _LONG_CONTEXT:
            return 2048 if self.version >= _LONGER_CHUNKS else 512
        return max(max_model_len, 2048)

    def is_sampling_profiled(self, max_model_len: int) -> bool:
        """Return whether the profiling run samples.

        V0 did not where it cut prompts into chunks (0.06 and 0.22 GiB in two logs).
        """
        return self.compiles or max_model_len <= _LONG_CONTEXT


def resolve_release(version: str | None, gpu: GpuProperties) -> VllmRelease:
    """Return the requested release on a GPU."""
    return VllmRelease(
        version=resolve_version(version, engine="vllm", oldest=OLDEST, newest=NEWEST),
        supports_flash=gpu.supports_flash,
    )


def _is_large(device: Device) -> bool:
    return device.usable_bytes >= _LARGE_GPU and not device.name.startswith("A100")
