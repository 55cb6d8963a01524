"""Requests and answers of /v1/field-data."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.fields import Answer, MeasurementId, Name, Strict

SourceName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        description="Name of the key, or of whoever a token stands for.",
        examples=["nodes"],
    ),
]


OfCluster = Annotated[
    Name | UnsetType,
    Meta(description="Only what the source says was measured on this cluster; default all."),
]


class FieldDataDecision(Strict, frozen=True, kw_only=True):
    """Which measurements are meant: a source's, or those named."""

    source: Annotated[
        SourceName | UnsetType,
        Meta(description="All that wait of this source, at most 1,000 at once."),
    ] = UNSET
    ids: Annotated[
        Annotated[list[MeasurementId], Meta(min_length=1, max_length=1000)] | UnsetType,
        Meta(description="These measurements, those that are held apart included."),
    ] = UNSET
    cluster: OfCluster = UNSET


class SourceWithdrawal(Strict, frozen=True, kw_only=True):
    """The source that is not to teach any more."""

    source: SourceName
    cluster: OfCluster = UNSET


class FieldDataAnswer(Answer, frozen=True, kw_only=True):
    """What was decided."""

    ids: Annotated[Sequence[str], Meta(description="Measurements that this changed.")]
    num_changed: Annotated[int, Meta(description="How many they are.")]
    has_more: Annotated[
        bool, Meta(description="Whether the source has more of them: ask the same again.")
    ]


class SourceAnswer(Answer, frozen=True, kw_only=True):
    """A source, with its measurements of one cluster by state."""

    source: Annotated[str, Meta(description="Name of the key, or of a token's subject.")]
    source_key: Annotated[
        str | None,
        Meta(description="Id of the key or subject of the token; null where none was needed."),
    ]
    cluster: Annotated[
        str | None,
        Meta(description="The cluster that they are said to be of; null where none was named."),
    ]
    num_pending: Annotated[int, Meta(description="Waiting for an operator.")]
    num_held: Annotated[
        int, Meta(description="Held apart, far from the answer: approved by their ids alone.")
    ]
    num_approved: Annotated[int, Meta(description="Approved: these teach.")]
    num_withdrawn: Annotated[int, Meta(description="Withdrawn.")]
    newest_at: Annotated[str, Meta(description="When the newest was handed in; RFC 3339.")]


class SourceList(Answer, frozen=True, kw_only=True):
    """Everybody who handed in measurements, newest first; at most 1,000."""

    items: Sequence[SourceAnswer]
