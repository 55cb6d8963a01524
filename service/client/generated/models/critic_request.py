from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.critic_model import CriticModel


T = TypeVar("T", bound="CriticRequest")


@_attrs_define
class CriticRequest:
    """The value model that PPO trains beside a policy, as sharded and in the same formats.

    Attributes:
        model (CriticModel | str | Unset): Its model, whose head becomes one number per token: a name as `model` has it,
            or one that is brought along; default the policy's.
        adapters (bool | Unset): It has adapters as the policy has; default false, all of its weights are trained.
        micro_batch_size (int | Unset): Sequences of one of its micro batches; default the policy's.
        sequence_length (int | Unset): Tokens of one of them; default the policy's.
        values_batch_size (int | Unset): Sequences of a forward pass alone; default those of a micro batch.
        checkpointed (bool | Unset): Its layers are computed again in backward; default as `activation_checkpointing`
            says.
        offload_parameters (bool | Unset): Its weights are on the host while others work.
        offload_optimizer (bool | Unset): Its optimizer's states are on the host but for its update.
        own_process (bool | Unset): It is a process of its own, with a CUDA context, as OpenRLHF runs it; default false,
            verl's.
    """

    model: CriticModel | str | Unset = UNSET
    adapters: bool | Unset = UNSET
    micro_batch_size: int | Unset = UNSET
    sequence_length: int | Unset = UNSET
    values_batch_size: int | Unset = UNSET
    checkpointed: bool | Unset = UNSET
    offload_parameters: bool | Unset = UNSET
    offload_optimizer: bool | Unset = UNSET
    own_process: bool | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.critic_model import CriticModel  # noqa: PLC0415

        model: dict[str, Any] | str | Unset
        if isinstance(self.model, Unset):
            model = UNSET
        elif isinstance(self.model, CriticModel):
            model = self.model.to_dict()
        else:
            model = self.model

        adapters = self.adapters

        micro_batch_size = self.micro_batch_size

        sequence_length = self.sequence_length

        values_batch_size = self.values_batch_size

        checkpointed = self.checkpointed

        offload_parameters = self.offload_parameters

        offload_optimizer = self.offload_optimizer

        own_process = self.own_process

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if model is not UNSET:
            field_dict["model"] = model
        if adapters is not UNSET:
            field_dict["adapters"] = adapters
        if micro_batch_size is not UNSET:
            field_dict["micro_batch_size"] = micro_batch_size
        if sequence_length is not UNSET:
            field_dict["sequence_length"] = sequence_length
        if values_batch_size is not UNSET:
            field_dict["values_batch_size"] = values_batch_size
        if checkpointed is not UNSET:
            field_dict["checkpointed"] = checkpointed
        if offload_parameters is not UNSET:
            field_dict["offload_parameters"] = offload_parameters
        if offload_optimizer is not UNSET:
            field_dict["offload_optimizer"] = offload_optimizer
        if own_process is not UNSET:
            field_dict["own_process"] = own_process

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.critic_model import CriticModel  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_model(data: object) -> CriticModel | str | Unset:
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                model_type_1 = CriticModel.from_dict(data)

                return model_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(CriticModel | str | Unset, data)

        model = _parse_model(d.pop("model", UNSET))

        adapters = d.pop("adapters", UNSET)

        micro_batch_size = d.pop("micro_batch_size", UNSET)

        sequence_length = d.pop("sequence_length", UNSET)

        values_batch_size = d.pop("values_batch_size", UNSET)

        checkpointed = d.pop("checkpointed", UNSET)

        offload_parameters = d.pop("offload_parameters", UNSET)

        offload_optimizer = d.pop("offload_optimizer", UNSET)

        own_process = d.pop("own_process", UNSET)

        critic_request = cls(
            model=model,
            adapters=adapters,
            micro_batch_size=micro_batch_size,
            sequence_length=sequence_length,
            values_batch_size=values_batch_size,
            checkpointed=checkpointed,
            offload_parameters=offload_parameters,
            offload_optimizer=offload_optimizer,
            own_process=own_process,
        )

        return critic_request
