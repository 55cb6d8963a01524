from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..models.d_type import DType, check_d_type
from ..models.rollout_engine import RolloutEngine, check_rollout_engine
from ..types import UNSET, Unset

T = TypeVar("T", bound="RolloutRequest")


@_attrs_define
class RolloutRequest:
    """The engine that generates completions on the trainer's GPUs.

    Attributes:
        engine (RolloutEngine | Unset): Engine that generates completions.
        engine_version (str | Unset): Version of the engine.
        num_sequences (int | Unset): Sequences that one GPU's `generate()` has at once; engines with a pool queue them.
            Default 1.
        gpu_memory_fraction (float | Unset): Share of the whole GPU that the engine takes.
        tensor_parallel (int | Unset): GPUs that share one engine; default 1.
        sleep_level (int | Unset): What the engine gives back while the trainer works: 0, the default, nothing; 1 its
            pool, and its weights to the host; 2 both, its weights dropped.
        weight_dtype (DType | Unset): A dense number format; block formats with scales live in ``quantization``.
        kv_cache_dtype (DType | Unset): A dense number format; block formats with scales live in ``quantization``.
        max_model_len (int | Unset): Longest sequence that the engine accepts.
        max_num_batched_tokens (int | Unset): Tokens of one engine step.
        max_num_sequences (int | Unset): Sequences that the engine schedules at once.
        enforce_eager (bool | Unset): No CUDA graphs.
        own_process (bool | Unset): The engine is a process of its own, with a CUDA context, as verl and OpenRLHF run
            it; default false, TRL's.
        offload_parameters (bool | Unset): The trainer's weights are on the host while the engine generates.
        offload_optimizer (bool | Unset): The optimizer's states are on the host but for the update.
        bucket_bytes (int | Unset): Bytes of the buffer in which weights are sent to the engine; default 0.
    """

    engine: RolloutEngine | Unset = UNSET
    engine_version: str | Unset = UNSET
    num_sequences: int | Unset = UNSET
    gpu_memory_fraction: float | Unset = UNSET
    tensor_parallel: int | Unset = UNSET
    sleep_level: int | Unset = UNSET
    weight_dtype: DType | Unset = UNSET
    kv_cache_dtype: DType | Unset = UNSET
    max_model_len: int | Unset = UNSET
    max_num_batched_tokens: int | Unset = UNSET
    max_num_sequences: int | Unset = UNSET
    enforce_eager: bool | Unset = UNSET
    own_process: bool | Unset = UNSET
    offload_parameters: bool | Unset = UNSET
    offload_optimizer: bool | Unset = UNSET
    bucket_bytes: int | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        engine: str | Unset = UNSET
        if not isinstance(self.engine, Unset):
            engine = self.engine

        engine_version = self.engine_version

        num_sequences = self.num_sequences

        gpu_memory_fraction = self.gpu_memory_fraction

        tensor_parallel = self.tensor_parallel

        sleep_level = self.sleep_level

        weight_dtype: str | Unset = UNSET
        if not isinstance(self.weight_dtype, Unset):
            weight_dtype = self.weight_dtype

        kv_cache_dtype: str | Unset = UNSET
        if not isinstance(self.kv_cache_dtype, Unset):
            kv_cache_dtype = self.kv_cache_dtype

        max_model_len = self.max_model_len

        max_num_batched_tokens = self.max_num_batched_tokens

        max_num_sequences = self.max_num_sequences

        enforce_eager = self.enforce_eager

        own_process = self.own_process

        offload_parameters = self.offload_parameters

        offload_optimizer = self.offload_optimizer

        bucket_bytes = self.bucket_bytes

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if engine is not UNSET:
            field_dict["engine"] = engine
        if engine_version is not UNSET:
            field_dict["engine_version"] = engine_version
        if num_sequences is not UNSET:
            field_dict["num_sequences"] = num_sequences
        if gpu_memory_fraction is not UNSET:
            field_dict["gpu_memory_fraction"] = gpu_memory_fraction
        if tensor_parallel is not UNSET:
            field_dict["tensor_parallel"] = tensor_parallel
        if sleep_level is not UNSET:
            field_dict["sleep_level"] = sleep_level
        if weight_dtype is not UNSET:
            field_dict["weight_dtype"] = weight_dtype
        if kv_cache_dtype is not UNSET:
            field_dict["kv_cache_dtype"] = kv_cache_dtype
        if max_model_len is not UNSET:
            field_dict["max_model_len"] = max_model_len
        if max_num_batched_tokens is not UNSET:
            field_dict["max_num_batched_tokens"] = max_num_batched_tokens
        if max_num_sequences is not UNSET:
            field_dict["max_num_sequences"] = max_num_sequences
        if enforce_eager is not UNSET:
            field_dict["enforce_eager"] = enforce_eager
        if own_process is not UNSET:
            field_dict["own_process"] = own_process
        if offload_parameters is not UNSET:
            field_dict["offload_parameters"] = offload_parameters
        if offload_optimizer is not UNSET:
            field_dict["offload_optimizer"] = offload_optimizer
        if bucket_bytes is not UNSET:
            field_dict["bucket_bytes"] = bucket_bytes

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        _engine = d.pop("engine", UNSET)
        engine: RolloutEngine | Unset
        if isinstance(_engine, Unset):
            engine = UNSET
        else:
            engine = check_rollout_engine(_engine)

        engine_version = d.pop("engine_version", UNSET)

        num_sequences = d.pop("num_sequences", UNSET)

        gpu_memory_fraction = d.pop("gpu_memory_fraction", UNSET)

        tensor_parallel = d.pop("tensor_parallel", UNSET)

        sleep_level = d.pop("sleep_level", UNSET)

        _weight_dtype = d.pop("weight_dtype", UNSET)
        weight_dtype: DType | Unset
        if isinstance(_weight_dtype, Unset):
            weight_dtype = UNSET
        else:
            weight_dtype = check_d_type(_weight_dtype)

        _kv_cache_dtype = d.pop("kv_cache_dtype", UNSET)
        kv_cache_dtype: DType | Unset
        if isinstance(_kv_cache_dtype, Unset):
            kv_cache_dtype = UNSET
        else:
            kv_cache_dtype = check_d_type(_kv_cache_dtype)

        max_model_len = d.pop("max_model_len", UNSET)

        max_num_batched_tokens = d.pop("max_num_batched_tokens", UNSET)

        max_num_sequences = d.pop("max_num_sequences", UNSET)

        enforce_eager = d.pop("enforce_eager", UNSET)

        own_process = d.pop("own_process", UNSET)

        offload_parameters = d.pop("offload_parameters", UNSET)

        offload_optimizer = d.pop("offload_optimizer", UNSET)

        bucket_bytes = d.pop("bucket_bytes", UNSET)

        rollout_request = cls(
            engine=engine,
            engine_version=engine_version,
            num_sequences=num_sequences,
            gpu_memory_fraction=gpu_memory_fraction,
            tensor_parallel=tensor_parallel,
            sleep_level=sleep_level,
            weight_dtype=weight_dtype,
            kv_cache_dtype=kv_cache_dtype,
            max_model_len=max_model_len,
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_sequences=max_num_sequences,
            enforce_eager=enforce_eager,
            own_process=own_process,
            offload_parameters=offload_parameters,
            offload_optimizer=offload_optimizer,
            bucket_bytes=bucket_bytes,
        )

        return rollout_request
