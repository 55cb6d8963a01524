"""Names of hosts that are kept."""

import pytest

from service.access import origins
from service.access.origins import KnownNames
from service.base.site_errors import MisdirectedError


def test_a_long_name_is_not_kept() -> None:
    """A header may have 64 KiB; what is longer than a name is none, and takes no memory."""
    before = origins.parse_host_name.cache_info().currsize
    for number in range(8):
        with pytest.raises(MisdirectedError):
            KnownNames().require_name("/v1/fit", {b"host": b"a" * 60_000 + b"%d.example" % number})

    assert origins.parse_host_name.cache_info().currsize == before
