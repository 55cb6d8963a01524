"""If-Match and If-None-Match as RFC 9110 has them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.base.errors import (
    InvalidRequestError,
    PreconditionFailedError,
    PreconditionRequiredError,
    ServiceError,
)
from service.usecases.preconditions import check_if_match, is_not_modified


@pytest.mark.parametrize(
    "header",
    [
        '"v1"',
        '"v0", "v1"',
        '"v0","v1"',
        '  "v1"  ',
        "*",
        ' W/"v1", "v1"',
        '"", "v1"',
        '"a,b", "v1"',
    ],
)
def test_a_header_that_names_the_version(header: str) -> None:
    """One of several tags is enough, and a star stands for whatever is there."""
    check_if_match(header, "v1")


@pytest.mark.parametrize(
    "header", ['"v0"', 'W/"v1"', '"V1"', '""', '"v0", W/"v1"', '"*"', '"v0,v1"']
)
def test_a_header_that_names_another_version(header: str) -> None:
    """Weak tags never match, case and spaces count, and the refusal tells the present version."""
    with pytest.raises(PreconditionFailedError, match='"v1"'):
        check_if_match(header, "v1")


@pytest.mark.parametrize(
    "header",
    ["v1", "", '"v1', 'v1"', '"v1" "v2"', '"v1",', ",", 'w/"v1"', "*, *", '"a"b"', '"v1 "'],
)
def test_a_header_that_is_none(header: str) -> None:
    """A tag without quotes is the common slip; the refusal shows how it is written."""
    with pytest.raises(InvalidRequestError, match='such as "v1"') as refused:
        check_if_match(header, "v1")

    assert refused.value.status == 422


def test_no_header() -> None:
    """A change without a precondition is refused, with the way to say one."""
    with pytest.raises(PreconditionRequiredError, match=r"If-Match: \*") as refused:
        check_if_match(None, "v1")

    assert refused.value.status == 428


@given(st.text(max_size=200))
def test_only_a_match_passes(header: str) -> None:
    """Whatever comes is refused in our words unless it is a star."""
    if header.strip() == "*":
        check_if_match(header, "v1")
        return
    with pytest.raises(ServiceError):
        check_if_match(header, "not-in-any-generated-text")


@given(
    st.lists(
        st.text(
            st.characters(
                codec="latin-1",
                exclude_characters='"',
                min_codepoint=0x21,
                exclude_categories=["Cc"],
            ),
            max_size=8,
        ),
    ),
)
def test_any_tag_of_a_list_matches(tags: list[str]) -> None:
    """Every tag that is listed is one that the caller has seen."""
    header = ", ".join(f'"{tag}"' for tag in tags)
    for tag in tags:
        check_if_match(header, tag)


def test_a_long_header_is_read_in_linear_time() -> None:
    """Ten thousand tags with a fault at their end are refused at once, not after a search through
    all ways to split them.
    """
    header = '"a" , ' * 10_000 + "x"

    with pytest.raises(InvalidRequestError):
        check_if_match(header, "v1")


@pytest.mark.parametrize(
    ("header", "seen"),
    [
        (None, False),
        ('"v1"', True),
        ('W/"v1"', True),
        ('"v0", "v1"', True),
        ("*", True),
        ('"v0"', False),
    ],
)
def test_who_has_a_version_is_not_sent_it(header: str | None, *, seen: bool) -> None:
    """If-None-Match compares weakly: a proxy that packed the body marks its tag as weak."""
    assert is_not_modified(header, "v1") is seen


def test_a_broken_if_none_match_is_told() -> None:
    """As with If-Match, the refusal shows how a tag is written."""
    with pytest.raises(InvalidRequestError, match="If-None-Match is 'v1'; it must be an ETag"):
        is_not_modified("v1", "v1")
