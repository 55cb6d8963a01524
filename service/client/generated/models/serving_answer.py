from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="ServingAnswer")


@_attrs_define
class ServingAnswer:
    """What a serving replica needs and has; null where an engine without a pool has no such number.

    Attributes:
        kv_bytes_per_token (int): Bytes that one more token of one sequence takes in the cache, on one rank.
        kv_cache_bytes (int): Bytes of the cache of all sequences at their full length.
        required_bytes (int): Bytes that the load needs: of an engine with a pool what must be in its budget, else what
            is allocated at the peak.
        budget_bytes (int): Bytes that there are for it: the engine's share of the GPU, else what a process can
            allocate.
        kv_pool_bytes (int | None): Bytes of the pool of blocks that the engine makes for its cache; null of engines
            without one.
        kv_pool_tokens (int | None): Tokens that the pool holds, as the engine logs it at its start; null of engines
            without one.
        max_num_sequences (int | None): Sequences of the load's length that the pool holds at once; null of engines
            without one.
        max_concurrency (float | None): Sequences of `max_model_len` tokens that the pool holds, as vLLM prints it.
        engine_version (None | str): Release that the answer is of.
    """

    kv_bytes_per_token: int
    kv_cache_bytes: int
    required_bytes: int
    budget_bytes: int
    kv_pool_bytes: int | None
    kv_pool_tokens: int | None
    max_num_sequences: int | None
    max_concurrency: float | None
    engine_version: None | str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        kv_bytes_per_token = self.kv_bytes_per_token

        kv_cache_bytes = self.kv_cache_bytes

        required_bytes = self.required_bytes

        budget_bytes = self.budget_bytes

        kv_pool_bytes: int | None
        kv_pool_bytes = self.kv_pool_bytes

        kv_pool_tokens: int | None
        kv_pool_tokens = self.kv_pool_tokens

        max_num_sequences: int | None
        max_num_sequences = self.max_num_sequences

        max_concurrency: float | None
        max_concurrency = self.max_concurrency

        engine_version: None | str
        engine_version = self.engine_version

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "kv_bytes_per_token": kv_bytes_per_token,
                "kv_cache_bytes": kv_cache_bytes,
                "required_bytes": required_bytes,
                "budget_bytes": budget_bytes,
                "kv_pool_bytes": kv_pool_bytes,
                "kv_pool_tokens": kv_pool_tokens,
                "max_num_sequences": max_num_sequences,
                "max_concurrency": max_concurrency,
                "engine_version": engine_version,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        kv_bytes_per_token = d.pop("kv_bytes_per_token")

        kv_cache_bytes = d.pop("kv_cache_bytes")

        required_bytes = d.pop("required_bytes")

        budget_bytes = d.pop("budget_bytes")

        def _parse_kv_pool_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        kv_pool_bytes = _parse_kv_pool_bytes(d.pop("kv_pool_bytes"))

        def _parse_kv_pool_tokens(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        kv_pool_tokens = _parse_kv_pool_tokens(d.pop("kv_pool_tokens"))

        def _parse_max_num_sequences(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        max_num_sequences = _parse_max_num_sequences(d.pop("max_num_sequences"))

        def _parse_max_concurrency(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        max_concurrency = _parse_max_concurrency(d.pop("max_concurrency"))

        def _parse_engine_version(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        engine_version = _parse_engine_version(d.pop("engine_version"))

        serving_answer = cls(
            kv_bytes_per_token=kv_bytes_per_token,
            kv_cache_bytes=kv_cache_bytes,
            required_bytes=required_bytes,
            budget_bytes=budget_bytes,
            kv_pool_bytes=kv_pool_bytes,
            kv_pool_tokens=kv_pool_tokens,
            max_num_sequences=max_num_sequences,
            max_concurrency=max_concurrency,
            engine_version=engine_version,
        )

        serving_answer.additional_properties = d
        return serving_answer

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
