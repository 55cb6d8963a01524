from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="ImportEnvironment")


@_attrs_define
class ImportEnvironment:
    """What the file does not say of the run, and you know.

    Attributes:
        driver (str | Unset): Version of the driver.
        cuda (str | Unset): Version of CUDA.
        torch (str | Unset): Version of PyTorch.
        transformers (str | Unset): Version of transformers.
        peft (str | Unset): Version of PEFT.
        allocator (str | Unset): What PYTORCH_CUDA_ALLOC_CONF was.
    """

    driver: str | Unset = UNSET
    cuda: str | Unset = UNSET
    torch: str | Unset = UNSET
    transformers: str | Unset = UNSET
    peft: str | Unset = UNSET
    allocator: str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        driver = self.driver

        cuda = self.cuda

        torch = self.torch

        transformers = self.transformers

        peft = self.peft

        allocator = self.allocator

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if driver is not UNSET:
            field_dict["driver"] = driver
        if cuda is not UNSET:
            field_dict["cuda"] = cuda
        if torch is not UNSET:
            field_dict["torch"] = torch
        if transformers is not UNSET:
            field_dict["transformers"] = transformers
        if peft is not UNSET:
            field_dict["peft"] = peft
        if allocator is not UNSET:
            field_dict["allocator"] = allocator

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        driver = d.pop("driver", UNSET)

        cuda = d.pop("cuda", UNSET)

        torch = d.pop("torch", UNSET)

        transformers = d.pop("transformers", UNSET)

        peft = d.pop("peft", UNSET)

        allocator = d.pop("allocator", UNSET)

        import_environment = cls(
            driver=driver,
            cuda=cuda,
            torch=torch,
            transformers=transformers,
            peft=peft,
            allocator=allocator,
        )

        return import_environment
