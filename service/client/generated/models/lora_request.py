from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.d_type import DType, check_d_type
from ..models.lora_kernel import LoraKernel, check_lora_kernel
from ..models.lora_request_target_modules_type_0 import LoraRequestTargetModulesType0, check_lora_request_target_modules_type_0
from ..models.lora_request_variant import LoraRequestVariant, check_lora_request_variant
from ..types import UNSET, Unset

T = TypeVar("T", bound="LoraRequest")


@_attrs_define
class LoraRequest:
    """Low-rank adapters (arXiv:2106.09685).

    Attributes:
        rank (int | Unset): Rank of the adapters.
        target_modules (list[str] | LoraRequestTargetModulesType0 | Unset): Which linear layers, by name or by the end
            of a path (`linear_attn.out_proj`); `all-linear` is all but the head.
        dtype (DType | Unset): A dense number format; block formats with scales live in ``quantization``.
        variant (LoraRequestVariant | Unset): Kind of adapter.
        dropout (float | Unset): Probability of dropout before each adapter, `lora_dropout` of PEFT, which keeps a mask
            and an input of its own where it is not 0.
        kernels (list[LoraKernel] | Unset): Layers that axolotl's own functions run with their adapters, in place of
            PEFT's modules: `qkv`, `o`, `mlp` (its `lora_qkv_kernel`, `lora_o_kernel`, `lora_mlp_kernel`); none unless said.
    """

    rank: int | Unset = UNSET
    target_modules: list[str] | LoraRequestTargetModulesType0 | Unset = UNSET
    dtype: DType | Unset = UNSET
    variant: LoraRequestVariant | Unset = UNSET
    dropout: float | Unset = UNSET
    kernels: list[LoraKernel] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        rank = self.rank

        target_modules: list[str] | str | Unset
        if isinstance(self.target_modules, Unset):
            target_modules = UNSET
        elif isinstance(self.target_modules, str):
            target_modules = self.target_modules
        else:
            target_modules = self.target_modules

        dtype: str | Unset = UNSET
        if not isinstance(self.dtype, Unset):
            dtype = self.dtype

        variant: str | Unset = UNSET
        if not isinstance(self.variant, Unset):
            variant = self.variant

        dropout = self.dropout

        kernels: list[str] | Unset = UNSET
        if not isinstance(self.kernels, Unset):
            kernels = []
            for kernels_item_data in self.kernels:
                kernels_item: str = kernels_item_data
                kernels.append(kernels_item)

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if rank is not UNSET:
            field_dict["rank"] = rank
        if target_modules is not UNSET:
            field_dict["target_modules"] = target_modules
        if dtype is not UNSET:
            field_dict["dtype"] = dtype
        if variant is not UNSET:
            field_dict["variant"] = variant
        if dropout is not UNSET:
            field_dict["dropout"] = dropout
        if kernels is not UNSET:
            field_dict["kernels"] = kernels

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        rank = d.pop("rank", UNSET)

        def _parse_target_modules(data: object) -> list[str] | LoraRequestTargetModulesType0 | Unset:
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                target_modules_type_0 = check_lora_request_target_modules_type_0(data)

                return target_modules_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            if not isinstance(data, list):
                raise TypeError()
            target_modules_type_1 = cast(list[str], data)

            return target_modules_type_1

        target_modules = _parse_target_modules(d.pop("target_modules", UNSET))

        _dtype = d.pop("dtype", UNSET)
        dtype: DType | Unset
        if isinstance(_dtype, Unset):
            dtype = UNSET
        else:
            dtype = check_d_type(_dtype)

        _variant = d.pop("variant", UNSET)
        variant: LoraRequestVariant | Unset
        if isinstance(_variant, Unset):
            variant = UNSET
        else:
            variant = check_lora_request_variant(_variant)

        dropout = d.pop("dropout", UNSET)

        _kernels = d.pop("kernels", UNSET)
        kernels: list[LoraKernel] | Unset = UNSET
        if _kernels is not UNSET:
            kernels = []
            for kernels_item_data in _kernels:
                kernels_item = check_lora_kernel(kernels_item_data)

                kernels.append(kernels_item)

        lora_request = cls(
            rank=rank,
            target_modules=target_modules,
            dtype=dtype,
            variant=variant,
            dropout=dropout,
            kernels=kernels,
        )

        return lora_request
