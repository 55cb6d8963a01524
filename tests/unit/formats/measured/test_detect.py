"""Which format a file has; and that no file, however broken, brings anything but the format's own
error.
"""

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.formats.measured.detect import parse
from service.formats.measured.reading import Format, MeasuredFormatError
from tests.unit.formats.measured.reading_samples import SAMPLES, sample

FORMATS = {
    "sacct_alpine.txt": Format.SACCT,
    "vllm_0_6.log": Format.VLLM,
    "vllm_0_19.log": Format.VLLM,
    "vllm_failed.log": Format.VLLM,
    "sglang_0_4.log": Format.SGLANG,
    "sglang_grok.log": Format.SGLANG,
    "sglang_draft.log": Format.SGLANG,
    "dcgm.prom": Format.PROMETHEUS,
    "nvidia_smi_pmon.txt": Format.NVIDIA_SMI,
    "nvidia_smi_table.txt": Format.NVIDIA_SMI,
    "train_results.json": Format.TRAINER,
}
DECLARED = st.none() | st.sampled_from(list(Format))
STRUCTURE = [
    "segments",
    "blocks",
    "device_traces",
    "jobs",
    "steps",
    "tres",
    "requested",
    "max",
    "data",
    "result",
    "metric",
]
LEAVES = [
    "size",
    "state",
    "action",
    "job_id",
    "count",
    "status",
    "resultType",
    "values",
    "value",
    "gpu",
    "device",
    "name",
    "0",
]
WORDS = [
    *STRUCTURE,
    *LEAVES,
    "allocated_bytes.all.peak",
    "train_mem_gpu_peaked_delta",
    "total_size",
    "type",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(WORDS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=30,
)


def only_its_own_error(data: bytes, declared: Format | None) -> None:
    """Parse, and let nothing through but a refusal in words."""
    with suppress(MeasuredFormatError):
        parse(data, declared=declared)


def test_every_sample_is_listed() -> None:
    """A sample without a test says nothing."""
    assert {path.name for path in SAMPLES.iterdir()} == {*FORMATS, "README.md"}


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_told_by_its_file(name: str) -> None:
    """Nobody has to say what he sends."""
    assert parse(sample(name)).format is FORMATS[name]


@pytest.mark.parametrize(
    ("data", "declared", "says"),
    [
        (b"", None, "is empty"),
        (b"hello", None, "no format is recognised in 'hello'"),
        (b"\xff\xfe", None, "line 1: byte 0 is no UTF-8"),
        (b"a\n\0", None, "line 2: holds a NUL"),
        (b"{}", None, "is JSON of the form of none that is known"),
        (b'{"jobs": [], "segments": []}', None, "is JSON of the form of sacct, snapshot"),
        (b'{"a": 1', None, "line 1: is not JSON"),
        (b'{"a": NaN}', None, "holds NaN"),
        (b'{"a": ' + b"9" * 50 + b"}", None, "a number of 50 digits"),
        (b'{"a": ' + b"[" * 100_000, None, "nested too deeply"),
        (b"\x80\x04]\x94.", None, "holds a list"),
        (b"\x80\x04]\x94.", Format.SACCT, "is a pickle; expected sacct"),
        (b"text", Format.SNAPSHOT, "is text, and snapshot is a pickle or JSON"),
    ],
)  # fmt: skip
def test_what_is_none_is_refused(data: bytes, declared: Format | None, says: str) -> None:
    """The error says what was found and what would be right."""
    with pytest.raises(MeasuredFormatError) as caught:
        parse(data, declared=declared)

    assert says in caught.value.message


@settings(deadline=None)
@given(st.binary(max_size=300), DECLARED)
def test_any_bytes_are_read_or_refused(data: bytes, declared: Format | None) -> None:
    """Noise brings the one error."""
    only_its_own_error(data, declared)


@settings(max_examples=200, deadline=None)
@given(JSON, DECLARED)
def test_any_json_is_read_or_refused(document: object, declared: Format | None) -> None:
    """So do documents whose words are right and whose values are not."""
    only_its_own_error(
        json.dumps({"segments": document, "device_traces": document}).encode(), declared
    )
    only_its_own_error(json.dumps(document).encode(), declared)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(list(FORMATS)), st.data())
def test_a_broken_sample_is_read_or_refused(name: str, data: st.DataObject) -> None:
    """Real files that were cut off, and that have other characters in the middle."""
    body = sample(name)
    cut = data.draw(st.integers(0, len(body)))
    start = data.draw(st.integers(0, cut))
    other = data.draw(st.text(alphabet="0123456789.,|{}[]\"'-=/ \n\tMGKiB", max_size=12)).encode()

    only_its_own_error(body[:cut], None)
    only_its_own_error(body[:start] + other + body[start:cut], FORMATS[name])
