from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.span_answer import SpanAnswer


T = TypeVar("T", bound="BalanceAnswer")


@_attrs_define
class BalanceAnswer:
    """Who had what of the GPU when it failed; null is what the log does not tell.

    Attributes:
        requested (None | SpanAnswer): Bytes that were asked for; or null.
        total (None | SpanAnswer): Bytes of the GPU; null if not printed.
        free (None | SpanAnswer): Bytes that nobody had; null if not printed.
        missing (None | SpanAnswer): Requested less free bytes, negative where enough was free; or null.
        limit (None | SpanAnswer): Bytes that this process may have; null where it has no limit.
        allocated (None | SpanAnswer): Bytes of PyTorch's tensors, with the free blocks of private pools; or null.
        unallocated (None | SpanAnswer): Bytes that are reserved and not allocated; null if not printed.
        reserved (None | SpanAnswer): Bytes of PyTorch's allocator; null if not printed.
        process (None | SpanAnswer): Bytes of the failing process; null if not printed.
        outside (None | SpanAnswer): Bytes of the failing process outside of the allocator: context, communicators, CUDA
            graphs; null where it is not known.
        other_processes (SpanAnswer): Bytes as printed: the true number lies between the ends, by the digits.
        strangers (SpanAnswer): Bytes as printed: the true number lies between the ends, by the digits.
        available (None | SpanAnswer): Bytes that this process could have, its context included; or null.
    """

    requested: None | SpanAnswer
    total: None | SpanAnswer
    free: None | SpanAnswer
    missing: None | SpanAnswer
    limit: None | SpanAnswer
    allocated: None | SpanAnswer
    unallocated: None | SpanAnswer
    reserved: None | SpanAnswer
    process: None | SpanAnswer
    outside: None | SpanAnswer
    other_processes: SpanAnswer
    strangers: SpanAnswer
    available: None | SpanAnswer
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.span_answer import SpanAnswer  # noqa: PLC0415

        requested: dict[str, Any] | None
        if isinstance(self.requested, SpanAnswer):
            requested = self.requested.to_dict()
        else:
            requested = self.requested

        total: dict[str, Any] | None
        if isinstance(self.total, SpanAnswer):
            total = self.total.to_dict()
        else:
            total = self.total

        free: dict[str, Any] | None
        if isinstance(self.free, SpanAnswer):
            free = self.free.to_dict()
        else:
            free = self.free

        missing: dict[str, Any] | None
        if isinstance(self.missing, SpanAnswer):
            missing = self.missing.to_dict()
        else:
            missing = self.missing

        limit: dict[str, Any] | None
        if isinstance(self.limit, SpanAnswer):
            limit = self.limit.to_dict()
        else:
            limit = self.limit

        allocated: dict[str, Any] | None
        if isinstance(self.allocated, SpanAnswer):
            allocated = self.allocated.to_dict()
        else:
            allocated = self.allocated

        unallocated: dict[str, Any] | None
        if isinstance(self.unallocated, SpanAnswer):
            unallocated = self.unallocated.to_dict()
        else:
            unallocated = self.unallocated

        reserved: dict[str, Any] | None
        if isinstance(self.reserved, SpanAnswer):
            reserved = self.reserved.to_dict()
        else:
            reserved = self.reserved

        process: dict[str, Any] | None
        if isinstance(self.process, SpanAnswer):
            process = self.process.to_dict()
        else:
            process = self.process

        outside: dict[str, Any] | None
        if isinstance(self.outside, SpanAnswer):
            outside = self.outside.to_dict()
        else:
            outside = self.outside

        other_processes = self.other_processes.to_dict()

        strangers = self.strangers.to_dict()

        available: dict[str, Any] | None
        if isinstance(self.available, SpanAnswer):
            available = self.available.to_dict()
        else:
            available = self.available

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "requested": requested,
                "total": total,
                "free": free,
                "missing": missing,
                "limit": limit,
                "allocated": allocated,
                "unallocated": unallocated,
                "reserved": reserved,
                "process": process,
                "outside": outside,
                "other_processes": other_processes,
                "strangers": strangers,
                "available": available,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.span_answer import SpanAnswer  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_requested(data: object) -> None | SpanAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                requested_type_0 = SpanAnswer.from_dict(data)

                return requested_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | SpanAnswer, data)

        requested = _parse_requested(d.pop("requested"))

        def _parse_total(data: object) -> None | SpanAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                total_type_0 = SpanAnswer.from_dict(data)

                return total_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | SpanAnswer, data)

        total = _parse_total(d.pop("total"))

        def _parse_free(data: object) -> None | SpanAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                free_type_0 = SpanAnswer.from_dict(data)

                return free_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | SpanAnswer, data)

        free = _parse_free(d.pop("free"))

        def _parse_missing(data: object) -> None | SpanAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                missing_type_0 = SpanAnswer.from_dict(data)

                return missing_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | SpanAnswer, data)

        missing = _parse_missing(d.pop("missing"))

        def _parse_limit(data: object) -> None | SpanAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                limit_type_0 = SpanAnswer.from_dict(data)

                return limit_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | SpanAnswer, data)

        limit = _parse_limit(d.pop("limit"))

        def _parse_allocated(data: object) -> None | SpanAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                allocated_type_0 = SpanAnswer.from_dict(data)

                return allocated_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | SpanAnswer, data)

        allocated = _parse_allocated(d.pop("allocated"))

        def _parse_unallocated(data: object) -> None | SpanAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                unallocated_type_0 = SpanAnswer.from_dict(data)

                return unallocated_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | SpanAnswer, data)

        unallocated = _parse_unallocated(d.pop("unallocated"))

        def _parse_reserved(data: object) -> None | SpanAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                reserved_type_0 = SpanAnswer.from_dict(data)

                return reserved_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | SpanAnswer, data)

        reserved = _parse_reserved(d.pop("reserved"))

        def _parse_process(data: object) -> None | SpanAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                process_type_0 = SpanAnswer.from_dict(data)

                return process_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | SpanAnswer, data)

        process = _parse_process(d.pop("process"))

        def _parse_outside(data: object) -> None | SpanAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                outside_type_0 = SpanAnswer.from_dict(data)

                return outside_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | SpanAnswer, data)

        outside = _parse_outside(d.pop("outside"))

        other_processes = SpanAnswer.from_dict(d.pop("other_processes"))

        strangers = SpanAnswer.from_dict(d.pop("strangers"))

        def _parse_available(data: object) -> None | SpanAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                available_type_0 = SpanAnswer.from_dict(data)

                return available_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | SpanAnswer, data)

        available = _parse_available(d.pop("available"))

        balance_answer = cls(
            requested=requested,
            total=total,
            free=free,
            missing=missing,
            limit=limit,
            allocated=allocated,
            unallocated=unallocated,
            reserved=reserved,
            process=process,
            outside=outside,
            other_processes=other_processes,
            strangers=strangers,
            available=available,
        )

        balance_answer.additional_properties = d
        return balance_answer

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
