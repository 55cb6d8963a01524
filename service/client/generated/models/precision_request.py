from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.d_type import DType, check_d_type
from ..types import UNSET, Unset

T = TypeVar("T", bound="PrecisionRequest")


@_attrs_define
class PrecisionRequest:
    """Number formats of a training run, one by one; what is absent follows `param_dtype`.

    Attributes:
        param_dtype (DType): A dense number format; block formats with scales live in ``quantization``.
        compute_dtype (DType | Unset): A dense number format; block formats with scales live in ``quantization``.
        autocast (bool | Unset): Weights stay in `param_dtype`; autocast keeps copies. Default: False.
        grad_dtype (DType | Unset): A dense number format; block formats with scales live in ``quantization``.
        reduce_dtype (DType | Unset): A dense number format; block formats with scales live in ``quantization``.
        master_dtype (DType | None | Unset): The optimizer's own copy; null, the default, is none.
        main_grad_dtype (DType | None | Unset): The optimizer's gradient; null, the default, is none.
        main_grad_persistent (bool | Unset): The main gradient lives through the whole step. Default: False.
        optimizer_dtype (DType | Unset): A dense number format; block formats with scales live in ``quantization``.
    """

    param_dtype: DType
    compute_dtype: DType | Unset = UNSET
    autocast: bool | Unset = False
    grad_dtype: DType | Unset = UNSET
    reduce_dtype: DType | Unset = UNSET
    master_dtype: DType | None | Unset = UNSET
    main_grad_dtype: DType | None | Unset = UNSET
    main_grad_persistent: bool | Unset = False
    optimizer_dtype: DType | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        param_dtype: str = self.param_dtype

        compute_dtype: str | Unset = UNSET
        if not isinstance(self.compute_dtype, Unset):
            compute_dtype = self.compute_dtype

        autocast = self.autocast

        grad_dtype: str | Unset = UNSET
        if not isinstance(self.grad_dtype, Unset):
            grad_dtype = self.grad_dtype

        reduce_dtype: str | Unset = UNSET
        if not isinstance(self.reduce_dtype, Unset):
            reduce_dtype = self.reduce_dtype

        master_dtype: None | str | Unset
        if isinstance(self.master_dtype, Unset):
            master_dtype = UNSET
        elif isinstance(self.master_dtype, str):
            master_dtype = self.master_dtype
        else:
            master_dtype = self.master_dtype

        main_grad_dtype: None | str | Unset
        if isinstance(self.main_grad_dtype, Unset):
            main_grad_dtype = UNSET
        elif isinstance(self.main_grad_dtype, str):
            main_grad_dtype = self.main_grad_dtype
        else:
            main_grad_dtype = self.main_grad_dtype

        main_grad_persistent = self.main_grad_persistent

        optimizer_dtype: str | Unset = UNSET
        if not isinstance(self.optimizer_dtype, Unset):
            optimizer_dtype = self.optimizer_dtype

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "param_dtype": param_dtype,
            }
        )
        if compute_dtype is not UNSET:
            field_dict["compute_dtype"] = compute_dtype
        if autocast is not UNSET:
            field_dict["autocast"] = autocast
        if grad_dtype is not UNSET:
            field_dict["grad_dtype"] = grad_dtype
        if reduce_dtype is not UNSET:
            field_dict["reduce_dtype"] = reduce_dtype
        if master_dtype is not UNSET:
            field_dict["master_dtype"] = master_dtype
        if main_grad_dtype is not UNSET:
            field_dict["main_grad_dtype"] = main_grad_dtype
        if main_grad_persistent is not UNSET:
            field_dict["main_grad_persistent"] = main_grad_persistent
        if optimizer_dtype is not UNSET:
            field_dict["optimizer_dtype"] = optimizer_dtype

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        param_dtype = check_d_type(d.pop("param_dtype"))

        _compute_dtype = d.pop("compute_dtype", UNSET)
        compute_dtype: DType | Unset
        if isinstance(_compute_dtype, Unset):
            compute_dtype = UNSET
        else:
            compute_dtype = check_d_type(_compute_dtype)

        autocast = d.pop("autocast", UNSET)

        _grad_dtype = d.pop("grad_dtype", UNSET)
        grad_dtype: DType | Unset
        if isinstance(_grad_dtype, Unset):
            grad_dtype = UNSET
        else:
            grad_dtype = check_d_type(_grad_dtype)

        _reduce_dtype = d.pop("reduce_dtype", UNSET)
        reduce_dtype: DType | Unset
        if isinstance(_reduce_dtype, Unset):
            reduce_dtype = UNSET
        else:
            reduce_dtype = check_d_type(_reduce_dtype)

        def _parse_master_dtype(data: object) -> DType | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                master_dtype_type_0 = check_d_type(data)

                return master_dtype_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(DType | None | Unset, data)

        master_dtype = _parse_master_dtype(d.pop("master_dtype", UNSET))

        def _parse_main_grad_dtype(data: object) -> DType | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                main_grad_dtype_type_0 = check_d_type(data)

                return main_grad_dtype_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(DType | None | Unset, data)

        main_grad_dtype = _parse_main_grad_dtype(d.pop("main_grad_dtype", UNSET))

        main_grad_persistent = d.pop("main_grad_persistent", UNSET)

        _optimizer_dtype = d.pop("optimizer_dtype", UNSET)
        optimizer_dtype: DType | Unset
        if isinstance(_optimizer_dtype, Unset):
            optimizer_dtype = UNSET
        else:
            optimizer_dtype = check_d_type(_optimizer_dtype)

        precision_request = cls(
            param_dtype=param_dtype,
            compute_dtype=compute_dtype,
            autocast=autocast,
            grad_dtype=grad_dtype,
            reduce_dtype=reduce_dtype,
            master_dtype=master_dtype,
            main_grad_dtype=main_grad_dtype,
            main_grad_persistent=main_grad_persistent,
            optimizer_dtype=optimizer_dtype,
        )

        return precision_request
