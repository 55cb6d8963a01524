"""Differences between releases of vLLM.

Sorting of logits, compilation of the model, and the defaults of a server differ. Read in 0.7.3,
0.11.0, 0.14.0, 0.17.0, and in 0.19.0 to 0.33.0 one by one.
"""

from collections.abc import Callable
from dataclasses import dataclass

from service.estimator.backends.vllm.backend import NEWEST, OLDEST
from service.estimator.backends.vllm.runners import copies_logits, samples_at_full_width
from service.estimator.memory.overheads.gpu_properties import GpuProperties
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.engine_versions import Version, resolve_version
from service.estimator.values.units import GIB

_LONGER_CHUNKS = Version(0, 7)
_V1, _V1_ALONE = Version(0, 8), Version(0, 11)
_COMBINED_KERNELS = Version(0, 12)
_LARGE_DEFAULTS = Version(0, 9)
_TRITON_SAMPLER = Version(0, 17)
_HYBRID_POOL = Version(0, 10)
_SHARED_BUFFERS = Version(0, 15)
_CAPPED_TOKENS = Version(0, 14)
_BUDGETED_GRAPHS = _WIDER_FRACTION = Version(0, 20)
_FLASHINFER_SAMPLER = _REQUESTS_COUNTED = Version(0, 21)
_CACHED_STATES, _EXPORTED_STATES = Version(0, 26), Version(0, 29)
_LARGEST_DEFAULTS = Version(0, 28)

FP32_LOGIT = 4
SOFTMAX_BYTES = 8
"""Probabilities and the exponential noise that they are divided by, in fp32 (``random_sample``)."""
SORT_BYTES = 32
"""Sorted values 4 and their 64-bit indices 8; the sort's own: two arrays of segment and index 8 +
8, keys 4 (PyTorch, ``segmented_sort_pairs_by_full_sort``).
"""
_FRACTIONS = (0.9, 0.92)
"""``gpu_memory_utilization``'s default (``config/cache.py``) before 0.20.0, and since."""
BLOCK_TOKENS, LATENT_BLOCK_TOKENS = 16, 64
"""Tokens of a block; kernels of latent attention wanted 64 (``v1/attention/backends/mla``)."""
_BLACKWELL_BLOCK_TOKENS = 32
"""The least that FlashInfer's kernel of latent attention takes."""
_BACKENDS_CHOOSE = Version(0, 19)
_LONG_CONTEXT = 32 * 1024
"""Beyond so many tokens V0 cut prompts into chunks on its own (``engine/arg_utils.py`` of 0.7.3).
"""
_LARGE_GPU, _LARGEST_GPU = 70 * GIB, 160 * GIB
_GB10 = "12.1"
"""It has the memory of a large GPU, and gets the defaults of a small one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmRelease:
    """Behaviour of one release."""

    version: Version
    supports_flash: bool = True
    """Whether the GPU runs FlashAttention, without which V0 stayed the engine while there was one.
    """
    second_runner: bool = False
    """Whether the second model runner runs the model (``v1/worker/gpu``)."""

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
    def budgets_graphs(self) -> bool:
        """Whether the budget has room for the CUDA graphs.

        A few of them are captured before the pool is made, and what all will take is taken off
        (``VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS``, on since 0.20.0).
        """
        return self.version >= _BUDGETED_GRAPHS

    @property
    def counts_requests(self) -> bool:
        """Whether the log's tokens are those of requests of the longest length.

        They were the blocks of one group of layers (``get_kv_cache_capacity``).
        """
        return self.version >= _REQUESTS_COUNTED

    @property
    def state_blocks(self) -> tuple[int, int]:
        """Blocks of a sequence for a state.

        The second number is for one that a prefill exports. Prefixes of hybrids are cached since
        0.26.0, which takes a state at a block's end beside the last one; since 0.29.0
        a prefill exports another (``MambaSpec.max_memory_usage_bytes``).
        """
        if self.version < _CACHED_STATES:
            return 1, 1
        return 2, 3 if self.version >= _EXPORTED_STATES else 2

    @property
    def memory_fraction(self) -> float:
        """Default of ``gpu_memory_utilization``."""
        return _FRACTIONS[self.version >= _WIDER_FRACTION]

    @property
    def shares_expert_buffers(self) -> bool:
        """Whether experts work in buffers that stay.

        (``v1/worker/workspace.py``; of pull request 31531 their sizes.)
        """
        return self.version >= _SHARED_BUFFERS

    @property
    def searches_logits(self) -> bool:
        """Whether sampling searches the logits in a Triton kernel.

        It has a buffer for each processor. FlashInfer's sampler is the default since 0.21.0 where
        FlashAttention runs.
        """
        if self.sorts_logits:
            return False
        return self.version < _FLASHINFER_SAMPLER or not self.supports_flash

    def sampler_bytes_per_logit(self, logit_bytes: int) -> int:
        """Return the bytes per logit at the peak of sampling.

        They are logits, their fp32 copy, and what picks from them.
        """
        copies = logit_bytes + (FP32_LOGIT if logit_bytes < FP32_LOGIT else 0)
        if self.second_runner and not samples_at_full_width(self.version):
            return copies if copies_logits(self.version) else logit_bytes
        return copies + (SORT_BYTES if self.sorts_logits else SOFTMAX_BYTES)

    def get_max_num_sequences(self, device: Device) -> int:
        """Return the default of ``max_num_seqs``.

        It is 1024 on GPUs of 70 GiB and more, 256 on others and on A100.
        """
        large = self.version >= _LARGE_DEFAULTS and _is_large(device)
        return 1024 if large else 256

    def get_batched_tokens(self, device: Device, max_model_len: int, max_num_sequences: int) -> int:
        """Return the default of ``max_num_batched_tokens`` of a server.

        It is one prompt in V0, else 8192 on large GPUs, 16384 on those of 160 GiB and more, and
        2048 on others; never more than the sequences can have.
        """
        if self.compiles:
            tokens = 8192 if _is_large(device) else 2048
            if self.version >= _LARGEST_DEFAULTS and device.usable_bytes >= _LARGEST_GPU:
                tokens = 16384
            return (
                min(tokens, max_num_sequences * max_model_len)
                if self.version >= _CAPPED_TOKENS
                else tokens
            )
        if max_model_len > _LONG_CONTEXT:
            return 2048 if self.version >= _LONGER_CHUNKS else 512
        return max(max_model_len, 2048)

    def is_sampling_profiled(self, max_model_len: int) -> bool:
        """Return whether the profiling run samples.

        V0 did not where it cut prompts into chunks (0.06 and 0.22 GiB in two logs).
        """
        return self.compiles or max_model_len <= _LONG_CONTEXT


def resolve_release(
    version: str | None,
    gpu: GpuProperties,
    *,
    runs_second: Callable[[Version], bool] = lambda _: False,
) -> VllmRelease:
    """Return the requested release on a GPU.

    It is the newest that was read where a later one is requested. ``runs_second`` says of a version
    whether its second runner runs the model.
    """
    resolved = resolve_version(version, engine="vllm", oldest=OLDEST, newest=NEWEST)
    return VllmRelease(
        version=min(resolved, NEWEST),
        supports_flash=gpu.supports_flash,
        second_runner=runs_second(resolved),
    )


def _is_large(device: Device) -> bool:
    small = device.name.startswith("A100") or device.compute_capability == _GB10
    return device.usable_bytes >= _LARGE_GPU and not small


def get_block_tokens(version: Version, device: Device, *, latent: bool, cache_dtype: DType) -> int:
    """Return the tokens of one block of a server's cache.

    Since 0.19.0 the first attention backend that runs says so: FlashAttention's and Triton's
    kernels of latent attention take 16, FlashInfer's on Blackwell 32, FlashMLA 64, which a Hopper
    runs on a cache in 8 bits (``platforms/cuda.py``, ``get_preferred_block_size``).
    """
    if not latent:
        return BLOCK_TOKENS
    if version < _BACKENDS_CHOOSE:
        return LATENT_BLOCK_TOKENS
    if device.is_blackwell:
        return _BLACKWELL_BLOCK_TOKENS
    if device.is_hopper and cache_dtype is DType.FP8:
        return LATENT_BLOCK_TOKENS
    return BLOCK_TOKENS
