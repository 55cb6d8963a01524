from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.draft_head import DraftHead, check_draft_head
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.draft_model import DraftModel


T = TypeVar("T", bound="SpeculativeRequest")


@_attrs_define
class SpeculativeRequest:
    """Speculative decoding (arXiv:2211.17192).

    Attributes:
        num_tokens (int): Tokens that are guessed at once.
        draft (DraftModel | str | Unset): The draft model: a name as `model` has it, or one that is brought like
            `model`; without one, n-grams of the prompt.
        head (DraftHead | Unset): Layers that guess from the hidden states of the model itself.
    """

    num_tokens: int
    draft: DraftModel | str | Unset = UNSET
    head: DraftHead | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.draft_model import DraftModel  # noqa: PLC0415

        num_tokens = self.num_tokens

        draft: dict[str, Any] | str | Unset
        if isinstance(self.draft, Unset):
            draft = UNSET
        elif isinstance(self.draft, DraftModel):
            draft = self.draft.to_dict()
        else:
            draft = self.draft

        head: str | Unset = UNSET
        if not isinstance(self.head, Unset):
            head = self.head

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "num_tokens": num_tokens,
            }
        )
        if draft is not UNSET:
            field_dict["draft"] = draft
        if head is not UNSET:
            field_dict["head"] = head

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.draft_model import DraftModel  # noqa: PLC0415

        d = dict(src_dict)
        num_tokens = d.pop("num_tokens")

        def _parse_draft(data: object) -> DraftModel | str | Unset:
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                draft_type_1 = DraftModel.from_dict(data)

                return draft_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(DraftModel | str | Unset, data)

        draft = _parse_draft(d.pop("draft", UNSET))

        _head = d.pop("head", UNSET)
        head: DraftHead | Unset
        if isinstance(_head, Unset):
            head = UNSET
        else:
            head = check_draft_head(_head)

        speculative_request = cls(
            num_tokens=num_tokens,
            draft=draft,
            head=head,
        )

        return speculative_request
