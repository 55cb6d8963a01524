"""What nvidia-smi prints and what Prometheus scraped: looks at a GPU now and then."""

import json

import pytest

from service.formats.measured.detect import parse
from service.formats.measured.prometheus import UNNAMED_NOTE
from service.formats.measured.reading import MIB, Format, MeasuredFormatError, Quantity
from tests.unit.formats.measured.reading_samples import read

CSV = """timestamp, index, name, driver_version, memory.used [MiB]
2026/01/02 12:00:00.123, 0, NVIDIA A100-SXM4-80GB, 535.104.05, 3 MiB
2026/01/02 12:00:00.123, 1, NVIDIA A100-SXM4-80GB, 535.104.05, [N/A]
2026/01/02 12:00:01.123, 0, NVIDIA A100-SXM4-80GB, 535.104.05, 40537 MiB
2026/01/02 12:00:02.123, 0, NVIDIA A100-SXM4-80GB, 535.104.05, 512 MiB
"""


def test_the_table_has_gpus_and_processes() -> None:
    """A GPU's number counts everybody on it, a process's itself."""
    found = read("nvidia_smi_table.txt")

    numbers = {
        (reading.quantity, reading.place.gpu, reading.place.pid): reading.value
        for reading in found.readings
    }
    assert numbers == {
        (Quantity.DEVICE_TOTAL_USED, "0", None): 40537 * MIB,
        (Quantity.DEVICE, "0", 123456): 40522 * MIB,
    }
    assert found.environment == {"driver": "535.104.05", "driver_cuda": "12.2"}
    assert {reading.place.gpu_name for reading in found.readings} == {"NVIDIA A100-SXM4-80GB"}


def test_processes_of_pmon_are_read() -> None:
    """Who only draws is left out, an idle GPU says nothing, and MB are MiB."""
    found = read("nvidia_smi_pmon.txt")

    [reading] = found.readings
    assert (reading.quantity, reading.value, reading.place.pid) == (
        Quantity.DEVICE,
        8123 * MIB,
        4242,
    )
    assert [part.line for part in found.left_out] == [4]


def test_a_log_in_csv_has_a_peak() -> None:
    """The highest of all looks counts, with when it began and ended; what a driver does not tell is
    left out.
    """
    found = parse(CSV.encode())

    [reading] = found.readings
    assert (reading.value, reading.num_samples, reading.sampled) == (40537 * MIB, 3, True)
    assert (reading.low, reading.high) == (40536 * MIB, 40538 * MIB)
    assert (reading.since, reading.until) == ("2026/01/02 12:00:00.123", "2026/01/02 12:00:02.123")
    assert found.environment == {"driver": "535.104.05"}
    assert "[N/A]" in found.left_out[0].reason


def test_processes_in_csv_may_have_commas_in_their_names() -> None:
    """A command line is a name, whatever is in it."""
    [reading] = parse(
        b"pid, process_name, used_gpu_memory [MiB]\n12, /bin/python a, b, c, 7 MiB\n"
    ).readings

    assert (reading.place.process, reading.value) == ("/bin/python a, b, c", 7 * MIB)


def test_dmon_is_the_whole_device() -> None:
    """Its fb is everybody's."""
    [reading] = parse(b"# gpu     fb   bar1\n# Idx     MB     MB\n    0   1234      5\n").readings

    assert (reading.quantity, reading.value) == (Quantity.DEVICE_TOTAL_USED, 1234 * MIB)


def test_columns_need_their_header() -> None:
    """Numbers without names could be anything."""
    with pytest.raises(
        MeasuredFormatError, match="line 1: expected a header before the first numbers"
    ):
        parse(b"0, 40537\n", declared=Format.NVIDIA_SMI)


def test_a_page_of_the_exporter_is_read() -> None:
    """DCGM cuts to MiB, so the bytes are up to one more."""
    found = read("dcgm.prom")

    [reading] = found.readings
    assert (found.format, reading.quantity) == (Format.PROMETHEUS, Quantity.DEVICE_TOTAL_USED)
    assert (reading.value, reading.low, reading.high) == (4845 * MIB, 4845 * MIB, 4846 * MIB - 1)
    assert (reading.place.gpu, reading.place.host) == ("0", "ub20-a100-k8s")


def test_a_range_has_its_peak_per_gpu_and_pod() -> None:
    """A series is one GPU of one pod; missing samples are no zeros."""
    metric = {
        "__name__": "DCGM_FI_DEV_FB_USED",
        "gpu": "0",
        "UUID": "GPU-1",
        "exported_pod": "sft-0",
        "exported_namespace": "ml",
    }
    other = {"__name__": "DCGM_FI_DEV_FB_FREE", "gpu": "0"}
    result = [
        {
            "metric": metric,
            "values": [[1767355200, "5"], [1767355215, "70000"], [1767355230, "NaN"]],
        },
        {"metric": other, "values": [[1767355200, "9"]]},
    ]
    found = parse(
        json.dumps(
            {"status": "success", "data": {"resultType": "matrix", "result": result}}
        ).encode(),
    )

    [reading] = found.readings
    assert (reading.value, reading.num_samples, reading.place.job) == (70000 * MIB, 2, "ml/sft-0")
    assert (reading.since, reading.until) == (
        "2026-01-02T12:00:00+00:00",
        "2026-01-02T12:00:15+00:00",
    )
    assert "DCGM_FI_DEV_FB_FREE" in found.left_out[0].reason


def test_a_nameless_series_needs_labels_of_a_gpu() -> None:
    """max_over_time drops the name, which is said; without any label nothing tells what was
    counted.
    """

    def vector(labels: dict[str, str]) -> bytes:
        result = [{"metric": labels, "value": [1767355200, "70000"]}]
        return json.dumps(
            {"status": "success", "data": {"resultType": "vector", "result": result}}
        ).encode()

    named, bare = parse(vector({"gpu": "0", "UUID": "GPU-1"})), parse(vector({}))

    assert (named.notes, len(named.readings)) == ((UNNAMED_NOTE,), 1)
    assert (bare.readings, len(bare.left_out)) == ((), 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            'DCGM_FI_DEV_FB_USED{gpu="0"} 68719476736',
            "line 1: DCGM_FI_DEV_FB_USED is 68719476736; expected MiB",
        ),
        ("DCGM_FI_DEV_FB_USED{gpu=0} 5", "line 1: expected labels such as"),
        (
            'DCGM_FI_DEV_FB_USED{gpu="0"} five',
            "line 1: DCGM_FI_DEV_FB_USED is 'five'; expected a number",
        ),
        ('{"status":"error","error":"bad_data"}', "expected \"success\": 'bad_data'"),
        ('{"status":"error","data":{}}', "status is 'error'; expected \"success\""),
        (
            '# HELP DCGM_FI_DEV_FB_USED used\nDCGM_FI_DEV_FB_FREE{gpu="0"} 5',
            "has no number of DCGM_FI_DEV_FB_USED",
        ),
        (
            '{"status":"success","data":{"resultType":"vector","result":[]}}',
            "has no number of DCGM_FI_DEV_FB_USED",
        ),
    ],
)
def test_a_wrong_sample_is_named(text: str, says: str) -> None:
    """Bytes in place of MiB are noticed as well."""
    with pytest.raises(MeasuredFormatError) as caught:
        parse(text.encode(), declared=Format.PROMETHEUS)

    assert says in caught.value.message
