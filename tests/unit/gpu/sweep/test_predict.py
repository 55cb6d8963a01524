"""What the sweep says of its cases before it runs them."""

from service.estimator.values.workload import ServeWorkload
from tests.gpu.sweep.cases import list_cases
from tests.gpu.sweep.predict import get_device, predict

H200 = {"gpu": "NVIDIA H200"}


def test_bytes_and_time_of_a_case_are_told_for_a_gpu_that_is_known() -> None:
    """A training step has its time, a prompt its prefill's; both have bytes at every instant."""
    cases = [case for case in list_cases() if case.model == "llama-3.2-1b" and case.layers is None]
    trained = next(case for case in cases if not isinstance(case.task.workload, ServeWorkload))
    served = next(case for case in cases if isinstance(case.task.workload, ServeWorkload))

    step, prompt = predict(trained, get_device(H200)), predict(served, get_device(H200))

    assert step is not None
    assert prompt is not None
    assert step.step_time_s is not None
    assert prompt.prefill_time_s is not None
    assert set(step.instants) >= {"load", "forward", "backward", "optimizer_step"}
    assert step.device_bytes > step.reserved_bytes >= step.allocated_bytes > step.steady_bytes > 0


def test_a_gpu_that_nobody_knows_has_bytes_without_a_time() -> None:
    """Bytes of tensors are those of any device; rates are not."""
    said = predict(next(iter(list_cases())), get_device({"gpu": "Unheard Of 9000"}))

    assert said is not None
    assert said.allocated_bytes > 0
    assert said.step_time_s is None
