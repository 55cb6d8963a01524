from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..models.offload_target import OffloadTarget, check_offload_target
from ..types import UNSET, Unset

T = TypeVar("T", bound="OffloadRequest")


@_attrs_define
class OffloadRequest:
    """What lives outside the GPU.

    Attributes:
        optimizer (OffloadTarget | Unset): Place of an offloaded part of the state.
        parameters (OffloadTarget | Unset): Place of an offloaded part of the state.
        activations (OffloadTarget | Unset): Place of an offloaded part of the state.
    """

    optimizer: OffloadTarget | Unset = UNSET
    parameters: OffloadTarget | Unset = UNSET
    activations: OffloadTarget | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        optimizer: str | Unset = UNSET
        if not isinstance(self.optimizer, Unset):
            optimizer = self.optimizer

        parameters: str | Unset = UNSET
        if not isinstance(self.parameters, Unset):
            parameters = self.parameters

        activations: str | Unset = UNSET
        if not isinstance(self.activations, Unset):
            activations = self.activations

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if optimizer is not UNSET:
            field_dict["optimizer"] = optimizer
        if parameters is not UNSET:
            field_dict["parameters"] = parameters
        if activations is not UNSET:
            field_dict["activations"] = activations

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        _optimizer = d.pop("optimizer", UNSET)
        optimizer: OffloadTarget | Unset
        if isinstance(_optimizer, Unset):
            optimizer = UNSET
        else:
            optimizer = check_offload_target(_optimizer)

        _parameters = d.pop("parameters", UNSET)
        parameters: OffloadTarget | Unset
        if isinstance(_parameters, Unset):
            parameters = UNSET
        else:
            parameters = check_offload_target(_parameters)

        _activations = d.pop("activations", UNSET)
        activations: OffloadTarget | Unset
        if isinstance(_activations, Unset):
            activations = UNSET
        else:
            activations = check_offload_target(_activations)

        offload_request = cls(
            optimizer=optimizer,
            parameters=parameters,
            activations=activations,
        )

        return offload_request
