from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.slurm_submission_environment import SlurmSubmissionEnvironment
    from ..models.slurm_submission_options import SlurmSubmissionOptions


T = TypeVar("T", bound="SlurmSubmission")


@_attrs_define
class SlurmSubmission:
    """A job that is about to be handed to Slurm.

    Attributes:
        options (SlurmSubmissionOptions): What `slurm.json_cli_options` returns.
        command (str | Unset): `sbatch`, `srun` or `salloc`. Default: 'sbatch'.
        script (None | str | Unset): Text of the script; null without one.
        user (None | str | Unset): Who submits it; null where unknown.
        environment (SlurmSubmissionEnvironment | Unset): Variables of whoever submits it; `HEADROOM_QUESTION` is
            enough.
    """

    options: SlurmSubmissionOptions
    command: str | Unset = "sbatch"
    script: None | str | Unset = UNSET
    user: None | str | Unset = UNSET
    environment: SlurmSubmissionEnvironment | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        options = self.options.to_dict()

        command = self.command

        script: None | str | Unset
        if isinstance(self.script, Unset):
            script = UNSET
        else:
            script = self.script

        user: None | str | Unset
        if isinstance(self.user, Unset):
            user = UNSET
        else:
            user = self.user

        environment: dict[str, Any] | Unset = UNSET
        if not isinstance(self.environment, Unset):
            environment = self.environment.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "options": options,
            }
        )
        if command is not UNSET:
            field_dict["command"] = command
        if script is not UNSET:
            field_dict["script"] = script
        if user is not UNSET:
            field_dict["user"] = user
        if environment is not UNSET:
            field_dict["environment"] = environment

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.slurm_submission_environment import SlurmSubmissionEnvironment  # noqa: PLC0415
        from ..models.slurm_submission_options import SlurmSubmissionOptions  # noqa: PLC0415

        d = dict(src_dict)
        options = SlurmSubmissionOptions.from_dict(d.pop("options"))

        command = d.pop("command", UNSET)

        def _parse_script(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        script = _parse_script(d.pop("script", UNSET))

        def _parse_user(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        user = _parse_user(d.pop("user", UNSET))

        _environment = d.pop("environment", UNSET)
        environment: SlurmSubmissionEnvironment | Unset
        if isinstance(_environment, Unset):
            environment = UNSET
        else:
            environment = SlurmSubmissionEnvironment.from_dict(_environment)

        slurm_submission = cls(
            options=options,
            command=command,
            script=script,
            user=user,
            environment=environment,
        )

        slurm_submission.additional_properties = d
        return slurm_submission

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
