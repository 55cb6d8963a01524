"""The cases of a sweep, and the lines that they become."""

from pathlib import Path

import msgspec
import pytest

from service.catalog.prior_measurements import read_priors
from service.estimator.values.layout import Sharding
from service.estimator.values.workload import Allocator, Attention, ServeWorkload, TrainWorkload
from service.jobs.contract import ProbeResult
from tests.gpu.sweep.__main__ import DataFile, filter_cases, find_remaining
from tests.gpu.sweep.case import Case, Header, Measurement, Row, read_lines
from tests.gpu.sweep.cases import list_cases
from tests.gpu.sweep.child import CaseResult
from tests.gpu.sweep.predict import get_device, predict
from tests.gpu.sweep.priors import build_document
from tests.gpu.sweep.report import render_markdown

CASES = list_cases()
H200 = {"gpu": "NVIDIA H200", "torch": "2.11.0", "driver": "580"}


def test_every_case_has_a_name_of_its_own() -> None:
    """A sweep is resumed by names."""
    assert len({case.name for case in CASES}) == len(CASES)


def test_the_first_cases_have_one_of_everything() -> None:
    """A budget that ends early has seen every method, both allocators and ranks, in at least 60
    cases in all.
    """
    early = CASES[:40]
    trained = [
        case.task.workload for case in early if isinstance(case.task.workload, TrainWorkload)
    ]

    assert len(CASES) >= 60
    assert len({case.model for case in early}) >= 6
    assert any(workload.lora is not None for workload in trained)
    assert {workload.precision.name for workload in trained} >= {
        "fp32",
        "bf16",
        "amp_bf16",
        "bf16_mixed",
    }
    assert {workload.allocator for workload in trained} == set(Allocator)
    assert any(isinstance(case.task.workload, ServeWorkload) for case in early)
    assert any(
        case.layout.sharding is Sharding.FSDP2 and case.layout.num_gpus > 1 for case in early
    )


def test_the_whole_sweep_varies_what_moves_memory() -> None:
    """Every attention kernel and every optimizer that a probe has."""
    trained = [
        case.task.workload for case in CASES if isinstance(case.task.workload, TrainWorkload)
    ]

    assert {workload.attention for workload in trained} == set(Attention)
    assert {workload.optimizer for workload in trained} >= {
        "adamw",
        "adamw_fused",
        "adamw_loop",
        "sgd",
        "sgd_momentum",
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_survives_its_journey(case: Case) -> None:
    """A child reads what the parent wrote."""
    assert msgspec.json.decode(msgspec.json.encode(case), type=Case) == case


def test_every_case_has_a_prediction() -> None:
    """What is measured is worth more beside what was said before; an H200 is known by the name that
    CUDA gives it.
    """
    device = get_device(H200)

    assert device.name == "H200-SXM5-141GB"
    assert [case.name for case in CASES[:40] if predict(case, device) is None] == []


def measured(live: int, **words: object) -> Measurement:
    """Return what a GPU might find."""
    found: dict[str, object] = {
        "allocated_bytes": live + 2**25,
        "reserved_bytes": live + 2**27,
        "device_bytes": live + 2**29,
        "context_bytes": 2**28,
        "workspace_bytes": 2**25,
        "steady_bytes": live // 2,
        "load_bytes": live // 4,
        "step_time_s": (0.1, 0.11, 0.1),
        "stretches": {"forward/layer:0": (live // 2, live), "optimizer_step": (live, live + 2**25)},
    }
    return Measurement(live_bytes=live, **(found | words))  # type: ignore[arg-type]  # the words of Measured


def a_file(tmp_path: Path, *answers: CaseResult) -> tuple[Header, list[Row]]:
    """Write these answers to the first cases and read them back."""
    path = tmp_path / "sweep.jsonl"
    file = DataFile(path=path, device="cuda", header=None, write=lambda _line: None)
    for case, answer in zip(CASES, answers, strict=False):
        file.take(case, answer, 1.5)
    found, rows = read_lines(path.read_bytes())
    assert found is not None
    return found, rows


def test_a_file_is_resumed_where_it_ended(tmp_path: Path) -> None:
    """What was measured or refused is not run again, what failed is; a line that was cut off does
    no harm.
    """
    done, refused, failed = (
        CaseResult(measured=measured(2**30), environment=H200),
        CaseResult(refused="no such kernel"),
        CaseResult(failed="killed"),
    )
    _header, rows = a_file(tmp_path, done, refused, failed)
    path = tmp_path / "sweep.jsonl"
    with path.open("ab") as file:
        file.write(b'{"kind": "row", "ca')
    resumed = DataFile(path=path, device="cuda", header=None, write=lambda _line: None)
    resumed.take(CASES[2], done, 1.0)
    _same, again = read_lines(path.read_bytes())

    assert find_remaining(CASES, rows) == list(CASES[2:])
    assert find_remaining(CASES, again) == list(CASES[3:])


def test_rows_of_another_machine_are_no_rows(tmp_path: Path) -> None:
    """One file has one environment; the allocator's setting is the case's own."""
    here = CaseResult(measured=measured(2**30), environment=H200 | {"allocator": "default"})
    expandable = CaseResult(
        measured=measured(2**30), environment=H200 | {"allocator": "expandable_segments"}
    )
    elsewhere = CaseResult(measured=measured(2**30), environment=H200 | {"driver": "555"})
    _header, rows = a_file(tmp_path, here, expandable, elsewhere)

    assert [row.failed is None for row in rows] == [True, True, False]


def test_the_report_tells_everything(tmp_path: Path) -> None:
    """Errors by group, what lies beside the tensors, times, running out, and what has no
    numbers.
    """
    ran_out = measured(2**37, out_of_memory_at=2**37, step_time_s=())
    header, rows = a_file(
        tmp_path,
        CaseResult(measured=measured(2**30), environment=H200),
        CaseResult(measured=ran_out, environment=H200),
        CaseResult(refused="no such kernel"),
    )
    text = render_markdown(header, rows)

    assert "NVIDIA H200" in text
    assert "| context, before the first tensor | 1 | 256.0 MiB | 256.0 MiB | 256.0 MiB |" in text
    assert "| outside of the allocator, at the peak | 1 | 384.0 MiB |" in text
    assert "out of memory at 128.000 GiB" in text
    assert "100.00 ms | 0.0% |" in text
    assert f"- {CASES[2].name}: no such kernel" in text


def test_few_layers_are_held_against_full_depth() -> None:
    """Slices that grow by the same bytes per layer say the full depth exactly, and the report shows
    it.
    """
    whole = next(case for case in CASES if case.group == "models" and case.model == "gpt2")
    slices = [case for case in CASES if case.name.startswith(f"{whole.name} layers")]

    def at_depth(case: Case, num_layers: int) -> Row:
        peak = 2**30 + num_layers * 2**20
        stretches = {
            f"forward/layer:{layer}": (2**29 + (layer + 1) * 2**20, 2**29)
            for layer in range(num_layers)
        }
        return Row(
            case=case,
            measured=measured(peak, stretches={**stretches, "optimizer_step": (peak, peak)}),
        )

    rows = [at_depth(whole, 12), *(at_depth(one, len(one.layers or ())) for one in slices)]
    text = render_markdown(Header(date="2026-01-02", device="cuda", how="", environment=H200), rows)

    assert "1.012 GiB | 1.012 GiB | +0.000% |" in text


def test_a_sweep_becomes_shipped_measurements(tmp_path: Path) -> None:
    """The catalogue reads the document, and every result is one of the contract's."""
    header, rows = a_file(
        tmp_path,
        *(CaseResult(measured=measured(2**30 + number), environment=H200) for number in range(4)),
    )
    document = build_document(header, rows, source="one NVIDIA H200")
    shipped = list(read_priors("h200", msgspec.json.encode(document)))
    results = [msgspec.convert(prior.result, ProbeResult) for prior in shipped]

    assert [prior.model for prior in shipped] == [
        case.model for case in CASES[:4] if case.layers is None
    ]
    assert all(prior.request["gpu"] == "H200-SXM5-141GB" for prior in shipped)
    assert [result.peaks.allocated_bytes for result in results] == [2**30 + 2, 2**30 + 3]


def test_groups_can_be_chosen() -> None:
    """The smoke group alone is what any machine runs in seconds."""
    assert all(case.small for case in filter_cases(CASES, ["smoke"]))
    assert filter_cases(CASES, []) == list(CASES)
