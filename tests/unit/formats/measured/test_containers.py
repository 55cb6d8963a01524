"""Pickles that are read as data: whatever a file holds, nothing of it runs."""

import os
import pickle
import pickletools
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.formats.measured.containers import load_containers
from service.formats.measured.reading import MeasuredFormatError

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
CONTAINERS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
        | st.tuples(inner, inner)
        | st.tuples(inner, inner, inner, inner)
    ),
    max_leaves=20,
)


class Evil:
    """What a pickle may be."""

    def __init__(self, target: Path) -> None:
        """Aim at a file."""
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Leave a file behind when it is unpickled."""
        return os.system, (f"touch {self.target}",)


@settings(deadline=None)
@given(CONTAINERS, st.sampled_from([2, 3, 4, 5]))
def test_containers_come_back(value: object, protocol: int) -> None:
    """Numbers, texts and containers of every protocol are what the real unpickler makes of them."""
    # bytes have an opcode of their own from protocol 3 on; before, a function makes them.
    body = pickle.dumps(value, protocol=protocol)
    needs_code = protocol == 2 and any(
        opcode.name == "GLOBAL" for opcode, _, _ in pickletools.genops(body)
    )
    if needs_code:
        with pytest.raises(MeasuredFormatError, match="GLOBAL"):
            load_containers(body)
    else:
        assert load_containers(body) == value


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_nothing_runs(tmp_path: Path, protocol: int) -> None:
    """The unpickler of the standard library would run the command; here it is refused by the
    opcode's name.
    """
    target = tmp_path / "ran"
    body = pickle.dumps({"segments": [Evil(target)]}, protocol=protocol)

    with pytest.raises(MeasuredFormatError, match="would load or call code"):
        load_containers(body)

    assert not target.exists()


@pytest.mark.parametrize(
    "body",
    [
        pickle.dumps(OrderedDict(a=1), protocol=4),
        pickle.dumps(Path("x"), protocol=2),
        b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00trueR.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
        b"\x80\x02(X\x04\x00\x00\x00trueios\nsystem\n.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02Pid\n.",
        b"\x80\x05\x97.",
    ],
)
def test_every_way_to_code_is_closed(body: bytes) -> None:
    """Globals, instances, extensions, persistent ids and buffers from outside."""
    with pytest.raises(MeasuredFormatError, match="would load or call code"):
        load_containers(body)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f", "0x8e"),
        (b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fx", "are left"),
        (b"\x80\x02Nr\xff\xff\xff\xff.", "keeps value 4,294,967,295"),
        (b"\x80\x02}(N" + b"\x85" * 100_000 + b"Nu.", "no pickle"),
        (b"\x80\x02(.", "no pickle"),
        (b"\x80\x02h\x05.", "no pickle"),
        (b"\x80\x02]N", "no pickle"),
        (b"\x80\x09N.", "protocol 9"),
        (b"\x80\x02I12\n.", "0x49"),
    ],
)
def test_bombs_and_fragments_are_refused(body: bytes, says: str) -> None:
    """Lengths beyond the file, memo slots by the billion, keys that would be hashed to death, and
    files cut short.
    """
    with pytest.raises(MeasuredFormatError, match=says):
        load_containers(body)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    """There is one error and no other."""
    with suppress(MeasuredFormatError):
        load_containers(b"\x80\x04" + body)
