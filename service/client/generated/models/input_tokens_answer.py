from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="InputTokensAnswer")


@_attrs_define
class InputTokensAnswer:
    """What one image, video or stretch of audio becomes.

    Attributes:
        kind (str): `image`, `video` or `audio`.
        count (int): How many of it a sequence has.
        tokens (int): Tokens of the sequence that one takes, special tokens included.
        features (int): Those of them that the encoder makes.
        pieces (int): Tiles, crops, frames or windows that the encoder reads of one.
        positions (int): Positions of the encoder's layers, all pieces of one together.
    """

    kind: str
    count: int
    tokens: int
    features: int
    pieces: int
    positions: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        kind = self.kind

        count = self.count

        tokens = self.tokens

        features = self.features

        pieces = self.pieces

        positions = self.positions

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "kind": kind,
                "count": count,
                "tokens": tokens,
                "features": features,
                "pieces": pieces,
                "positions": positions,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        kind = d.pop("kind")

        count = d.pop("count")

        tokens = d.pop("tokens")

        features = d.pop("features")

        pieces = d.pop("pieces")

        positions = d.pop("positions")

        input_tokens_answer = cls(
            kind=kind,
            count=count,
            tokens=tokens,
            features=features,
            pieces=pieces,
            positions=positions,
        )

        input_tokens_answer.additional_properties = d
        return input_tokens_answer

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
