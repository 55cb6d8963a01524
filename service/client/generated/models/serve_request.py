from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.allocator import Allocator, check_allocator
from ..models.attention import Attention, check_attention
from ..models.cache import Cache, check_cache
from ..models.cache_type import CacheType, check_cache_type
from ..models.client import Client, check_client
from ..models.d_type import DType, check_d_type
from ..models.engine import Engine, check_engine
from ..models.quantization import Quantization, check_quantization
from ..models.sampling import Sampling, check_sampling
from ..models.serve_request_task import ServeRequestTask, check_serve_request_task
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.inputs_request import InputsRequest
    from ..models.speculative_request import SpeculativeRequest


T = TypeVar("T", bound="ServeRequest")


@_attrs_define
class ServeRequest:
    """One serving replica.

    Attributes:
        task (ServeRequestTask): Always `serve`: by it a ServeRequest is told from others.
        num_sequences (int): Sequences that run at once.
        prompt_tokens (int | Unset): Tokens of one prompt; required unless `inputs` is all that a model reads.
        output_tokens (int | Unset): Tokens generated per sequence.
        engine (Engine | Unset): Serving engine.
        engine_version (str | Unset): Version of the engine.
        weight_dtype (DType | Unset): A dense number format; block formats with scales live in ``quantization``.
        quantization (Quantization | Unset): Format of the served weights, the last five mixtures of GGUF files.
        kv_cache_dtype (DType | Unset): A dense number format; block formats with scales live in ``quantization``.
        num_beams (int | Unset): Beams per sequence.
        client (Client | Unset): Caller of a model that transformers serves.
        sampling (Sampling | Unset): Choice of the next token by ``generate``.
        max_model_len (int | Unset): Longest sequence that the engine accepts.
        max_num_batched_tokens (int | Unset): Tokens of one engine step.
        max_num_sequences (int | Unset): Sequences that the engine schedules at once at most; default its own, or
            `num_sequences` if more.
        gpu_memory_fraction (float | Unset): Share of the GPU's total that an engine takes.
        kv_pool_bytes (int | Unset): Bytes of the pool of keys and values on each GPU, in place of what
            `gpu_memory_fraction` leaves (vLLM's `--kv-cache-memory-bytes`).
        kv_pool_blocks (int | Unset): Blocks of the pool on each GPU, in place of what `gpu_memory_fraction` or
            `kv_pool_bytes` leaves (vLLM's `--num-gpu-blocks-override`).
        kv_pool_tokens (int | Unset): Tokens of the pool at most, where `gpu_memory_fraction` leaves room for more
            (SGLang's `--max-total-tokens`, `max_tokens` of TensorRT-LLM's `kv_cache_config`).
        enforce_eager (bool | Unset): No CUDA graphs.
        speculative (SpeculativeRequest | Unset): Speculative decoding (arXiv:2211.17192).
        attention (Attention | Unset): Attention kernel; ``sdpa`` is the one that CUDA would choose.
        num_images (int | Unset): Images in each prompt; `prompt_tokens` counts theirs.
        image_tokens (int | Unset): Tokens per image.
        inputs (InputsRequest | Unset): Images, videos and audio of each sequence. The processor's own rules make tokens
            of them, which `sequence_length` or `prompt_tokens` counts.
        cache (Cache | Unset): Layout of the key/value cache in an engine.
        allocator (Allocator | Unset): Segments of PyTorch's allocator, fixed or growing (``PYTORCH_CUDA_ALLOC_CONF``).
        gpu_layers (int | Unset): llama.cpp's `--n-gpu-layers`: last layers that GPUs hold, the output counted as one;
            default all.
        cpu_moe_layers (int | Unset): llama.cpp's `--n-cpu-moe`: first layers whose experts the host holds.
        tensor_split (list[float] | Unset): llama.cpp's `--tensor-split`: shares of the layers, GPU by GPU.
        cache_type (CacheType | Unset): Blocks that llama.cpp keeps keys and values in (``common/arg.cpp``,
            ``kv_cache_types``).
        cpu_offload_gb (float | Unset): GiB of weights of each GPU that vLLM or SGLang keep on the host.
        max_loras (int | Unset): vLLM's `--max-loras` with `--enable-lora`: slots of LoRA adapters that are allocated at
            the start; without it there are none.
        max_lora_rank (int | Unset): vLLM's `--max-lora-rank`: rank of each slot; default 16.
        max_images_per_prompt (int | Unset): `image` of vLLM's `--limit-mm-per-prompt`: images that a prompt may have,
            which the vision tower is profiled with; without it as many as have room.
        max_videos_per_prompt (int | Unset): `video` of vLLM's `--limit-mm-per-prompt`: with 0 the vision tower is
            profiled with images alone.
        state_dtype (DType | Unset): A dense number format; block formats with scales live in ``quantization``.
    """

    task: ServeRequestTask
    num_sequences: int
    prompt_tokens: int | Unset = UNSET
    output_tokens: int | Unset = UNSET
    engine: Engine | Unset = UNSET
    engine_version: str | Unset = UNSET
    weight_dtype: DType | Unset = UNSET
    quantization: Quantization | Unset = UNSET
    kv_cache_dtype: DType | Unset = UNSET
    num_beams: int | Unset = UNSET
    client: Client | Unset = UNSET
    sampling: Sampling | Unset = UNSET
    max_model_len: int | Unset = UNSET
    max_num_batched_tokens: int | Unset = UNSET
    max_num_sequences: int | Unset = UNSET
    gpu_memory_fraction: float | Unset = UNSET
    kv_pool_bytes: int | Unset = UNSET
    kv_pool_blocks: int | Unset = UNSET
    kv_pool_tokens: int | Unset = UNSET
    enforce_eager: bool | Unset = UNSET
    speculative: SpeculativeRequest | Unset = UNSET
    attention: Attention | Unset = UNSET
    num_images: int | Unset = UNSET
    image_tokens: int | Unset = UNSET
    inputs: InputsRequest | Unset = UNSET
    cache: Cache | Unset = UNSET
    allocator: Allocator | Unset = UNSET
    gpu_layers: int | Unset = UNSET
    cpu_moe_layers: int | Unset = UNSET
    tensor_split: list[float] | Unset = UNSET
    cache_type: CacheType | Unset = UNSET
    cpu_offload_gb: float | Unset = UNSET
    max_loras: int | Unset = UNSET
    max_lora_rank: int | Unset = UNSET
    max_images_per_prompt: int | Unset = UNSET
    max_videos_per_prompt: int | Unset = UNSET
    state_dtype: DType | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        task: str = self.task

        num_sequences = self.num_sequences

        prompt_tokens = self.prompt_tokens

        output_tokens = self.output_tokens

        engine: str | Unset = UNSET
        if not isinstance(self.engine, Unset):
            engine = self.engine

        engine_version = self.engine_version

        weight_dtype: str | Unset = UNSET
        if not isinstance(self.weight_dtype, Unset):
            weight_dtype = self.weight_dtype

        quantization: str | Unset = UNSET
        if not isinstance(self.quantization, Unset):
            quantization = self.quantization

        kv_cache_dtype: str | Unset = UNSET
        if not isinstance(self.kv_cache_dtype, Unset):
            kv_cache_dtype = self.kv_cache_dtype

        num_beams = self.num_beams

        client: str | Unset = UNSET
        if not isinstance(self.client, Unset):
            client = self.client

        sampling: str | Unset = UNSET
        if not isinstance(self.sampling, Unset):
            sampling = self.sampling

        max_model_len = self.max_model_len

        max_num_batched_tokens = self.max_num_batched_tokens

        max_num_sequences = self.max_num_sequences

        gpu_memory_fraction = self.gpu_memory_fraction

        kv_pool_bytes = self.kv_pool_bytes

        kv_pool_blocks = self.kv_pool_blocks

        kv_pool_tokens = self.kv_pool_tokens

        enforce_eager = self.enforce_eager

        speculative: dict[str, Any] | Unset = UNSET
        if not isinstance(self.speculative, Unset):
            speculative = self.speculative.to_dict()

        attention: str | Unset = UNSET
        if not isinstance(self.attention, Unset):
            attention = self.attention

        num_images = self.num_images

        image_tokens = self.image_tokens

        inputs: dict[str, Any] | Unset = UNSET
        if not isinstance(self.inputs, Unset):
            inputs = self.inputs.to_dict()

        cache: str | Unset = UNSET
        if not isinstance(self.cache, Unset):
            cache = self.cache

        allocator: str | Unset = UNSET
        if not isinstance(self.allocator, Unset):
            allocator = self.allocator

        gpu_layers = self.gpu_layers

        cpu_moe_layers = self.cpu_moe_layers

        tensor_split: list[float] | Unset = UNSET
        if not isinstance(self.tensor_split, Unset):
            tensor_split = self.tensor_split

        cache_type: str | Unset = UNSET
        if not isinstance(self.cache_type, Unset):
            cache_type = self.cache_type

        cpu_offload_gb = self.cpu_offload_gb

        max_loras = self.max_loras

        max_lora_rank = self.max_lora_rank

        max_images_per_prompt = self.max_images_per_prompt

        max_videos_per_prompt = self.max_videos_per_prompt

        state_dtype: str | Unset = UNSET
        if not isinstance(self.state_dtype, Unset):
            state_dtype = self.state_dtype

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "task": task,
                "num_sequences": num_sequences,
            }
        )
        if prompt_tokens is not UNSET:
            field_dict["prompt_tokens"] = prompt_tokens
        if output_tokens is not UNSET:
            field_dict["output_tokens"] = output_tokens
        if engine is not UNSET:
            field_dict["engine"] = engine
        if engine_version is not UNSET:
            field_dict["engine_version"] = engine_version
        if weight_dtype is not UNSET:
            field_dict["weight_dtype"] = weight_dtype
        if quantization is not UNSET:
            field_dict["quantization"] = quantization
        if kv_cache_dtype is not UNSET:
            field_dict["kv_cache_dtype"] = kv_cache_dtype
        if num_beams is not UNSET:
            field_dict["num_beams"] = num_beams
        if client is not UNSET:
            field_dict["client"] = client
        if sampling is not UNSET:
            field_dict["sampling"] = sampling
        if max_model_len is not UNSET:
            field_dict["max_model_len"] = max_model_len
        if max_num_batched_tokens is not UNSET:
            field_dict["max_num_batched_tokens"] = max_num_batched_tokens
        if max_num_sequences is not UNSET:
            field_dict["max_num_sequences"] = max_num_sequences
        if gpu_memory_fraction is not UNSET:
            field_dict["gpu_memory_fraction"] = gpu_memory_fraction
        if kv_pool_bytes is not UNSET:
            field_dict["kv_pool_bytes"] = kv_pool_bytes
        if kv_pool_blocks is not UNSET:
            field_dict["kv_pool_blocks"] = kv_pool_blocks
        if kv_pool_tokens is not UNSET:
            field_dict["kv_pool_tokens"] = kv_pool_tokens
        if enforce_eager is not UNSET:
            field_dict["enforce_eager"] = enforce_eager
        if speculative is not UNSET:
            field_dict["speculative"] = speculative
        if attention is not UNSET:
            field_dict["attention"] = attention
        if num_images is not UNSET:
            field_dict["num_images"] = num_images
        if image_tokens is not UNSET:
            field_dict["image_tokens"] = image_tokens
        if inputs is not UNSET:
            field_dict["inputs"] = inputs
        if cache is not UNSET:
            field_dict["cache"] = cache
        if allocator is not UNSET:
            field_dict["allocator"] = allocator
        if gpu_layers is not UNSET:
            field_dict["gpu_layers"] = gpu_layers
        if cpu_moe_layers is not UNSET:
            field_dict["cpu_moe_layers"] = cpu_moe_layers
        if tensor_split is not UNSET:
            field_dict["tensor_split"] = tensor_split
        if cache_type is not UNSET:
            field_dict["cache_type"] = cache_type
        if cpu_offload_gb is not UNSET:
            field_dict["cpu_offload_gb"] = cpu_offload_gb
        if max_loras is not UNSET:
            field_dict["max_loras"] = max_loras
        if max_lora_rank is not UNSET:
            field_dict["max_lora_rank"] = max_lora_rank
        if max_images_per_prompt is not UNSET:
            field_dict["max_images_per_prompt"] = max_images_per_prompt
        if max_videos_per_prompt is not UNSET:
            field_dict["max_videos_per_prompt"] = max_videos_per_prompt
        if state_dtype is not UNSET:
            field_dict["state_dtype"] = state_dtype

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.inputs_request import InputsRequest  # noqa: PLC0415
        from ..models.speculative_request import SpeculativeRequest  # noqa: PLC0415

        d = dict(src_dict)
        task = check_serve_request_task(d.pop("task"))

        num_sequences = d.pop("num_sequences")

        prompt_tokens = d.pop("prompt_tokens", UNSET)

        output_tokens = d.pop("output_tokens", UNSET)

        _engine = d.pop("engine", UNSET)
        engine: Engine | Unset
        if isinstance(_engine, Unset):
            engine = UNSET
        else:
            engine = check_engine(_engine)

        engine_version = d.pop("engine_version", UNSET)

        _weight_dtype = d.pop("weight_dtype", UNSET)
        weight_dtype: DType | Unset
        if isinstance(_weight_dtype, Unset):
            weight_dtype = UNSET
        else:
            weight_dtype = check_d_type(_weight_dtype)

        _quantization = d.pop("quantization", UNSET)
        quantization: Quantization | Unset
        if isinstance(_quantization, Unset):
            quantization = UNSET
        else:
            quantization = check_quantization(_quantization)

        _kv_cache_dtype = d.pop("kv_cache_dtype", UNSET)
        kv_cache_dtype: DType | Unset
        if isinstance(_kv_cache_dtype, Unset):
            kv_cache_dtype = UNSET
        else:
            kv_cache_dtype = check_d_type(_kv_cache_dtype)

        num_beams = d.pop("num_beams", UNSET)

        _client = d.pop("client", UNSET)
        client: Client | Unset
        if isinstance(_client, Unset):
            client = UNSET
        else:
            client = check_client(_client)

        _sampling = d.pop("sampling", UNSET)
        sampling: Sampling | Unset
        if isinstance(_sampling, Unset):
            sampling = UNSET
        else:
            sampling = check_sampling(_sampling)

        max_model_len = d.pop("max_model_len", UNSET)

        max_num_batched_tokens = d.pop("max_num_batched_tokens", UNSET)

        max_num_sequences = d.pop("max_num_sequences", UNSET)

        gpu_memory_fraction = d.pop("gpu_memory_fraction", UNSET)

        kv_pool_bytes = d.pop("kv_pool_bytes", UNSET)

        kv_pool_blocks = d.pop("kv_pool_blocks", UNSET)

        kv_pool_tokens = d.pop("kv_pool_tokens", UNSET)

        enforce_eager = d.pop("enforce_eager", UNSET)

        _speculative = d.pop("speculative", UNSET)
        speculative: SpeculativeRequest | Unset
        if isinstance(_speculative, Unset):
            speculative = UNSET
        else:
            speculative = SpeculativeRequest.from_dict(_speculative)

        _attention = d.pop("attention", UNSET)
        attention: Attention | Unset
        if isinstance(_attention, Unset):
            attention = UNSET
        else:
            attention = check_attention(_attention)

        num_images = d.pop("num_images", UNSET)

        image_tokens = d.pop("image_tokens", UNSET)

        _inputs = d.pop("inputs", UNSET)
        inputs: InputsRequest | Unset
        if isinstance(_inputs, Unset):
            inputs = UNSET
        else:
            inputs = InputsRequest.from_dict(_inputs)

        _cache = d.pop("cache", UNSET)
        cache: Cache | Unset
        if isinstance(_cache, Unset):
            cache = UNSET
        else:
            cache = check_cache(_cache)

        _allocator = d.pop("allocator", UNSET)
        allocator: Allocator | Unset
        if isinstance(_allocator, Unset):
            allocator = UNSET
        else:
            allocator = check_allocator(_allocator)

        gpu_layers = d.pop("gpu_layers", UNSET)

        cpu_moe_layers = d.pop("cpu_moe_layers", UNSET)

        tensor_split = cast(list[float], d.pop("tensor_split", UNSET))

        _cache_type = d.pop("cache_type", UNSET)
        cache_type: CacheType | Unset
        if isinstance(_cache_type, Unset):
            cache_type = UNSET
        else:
            cache_type = check_cache_type(_cache_type)

        cpu_offload_gb = d.pop("cpu_offload_gb", UNSET)

        max_loras = d.pop("max_loras", UNSET)

        max_lora_rank = d.pop("max_lora_rank", UNSET)

        max_images_per_prompt = d.pop("max_images_per_prompt", UNSET)

        max_videos_per_prompt = d.pop("max_videos_per_prompt", UNSET)

        _state_dtype = d.pop("state_dtype", UNSET)
        state_dtype: DType | Unset
        if isinstance(_state_dtype, Unset):
            state_dtype = UNSET
        else:
            state_dtype = check_d_type(_state_dtype)

        serve_request = cls(
            task=task,
            num_sequences=num_sequences,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            engine=engine,
            engine_version=engine_version,
            weight_dtype=weight_dtype,
            quantization=quantization,
            kv_cache_dtype=kv_cache_dtype,
            num_beams=num_beams,
            client=client,
            sampling=sampling,
            max_model_len=max_model_len,
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_sequences=max_num_sequences,
            gpu_memory_fraction=gpu_memory_fraction,
            kv_pool_bytes=kv_pool_bytes,
            kv_pool_blocks=kv_pool_blocks,
            kv_pool_tokens=kv_pool_tokens,
            enforce_eager=enforce_eager,
            speculative=speculative,
            attention=attention,
            num_images=num_images,
            image_tokens=image_tokens,
            inputs=inputs,
            cache=cache,
            allocator=allocator,
            gpu_layers=gpu_layers,
            cpu_moe_layers=cpu_moe_layers,
            tensor_split=tensor_split,
            cache_type=cache_type,
            cpu_offload_gb=cpu_offload_gb,
            max_loras=max_loras,
            max_lora_rank=max_lora_rank,
            max_images_per_prompt=max_images_per_prompt,
            max_videos_per_prompt=max_videos_per_prompt,
            state_dtype=state_dtype,
        )

        return serve_request
