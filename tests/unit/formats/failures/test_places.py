"""Tracebacks as our instants."""

import pytest

from service.formats.failures.failure import Frame
from service.formats.failures.places import classify_frames
from service.formats.failures.traceback_frames import FrameReader, find_rank

TRAINER = ("transformers/trainer.py", "training_step", "")
MODEL = ("transformers/models/llama/modeling_llama.py", "forward", "")
LINEAR = ("torch/nn/modules/linear.py", "forward", "return F.linear(input, self.weight)")
STEP = ("torch/optim/adamw.py", "step", "adamw(")


def classify(*calls: tuple[str, str, str]) -> str | None:
    """Return the instant of a traceback."""
    frames = [Frame(file=file, function=name, code=code) for file, name, code in calls]
    place = classify_frames(frames)
    return None if place is None else place.instant


@pytest.mark.parametrize(
    ("calls", "instant"),
    [
        ((TRAINER, MODEL, LINEAR), "forward"),
        ((TRAINER, MODEL, ("flash_attn/flash_attn_interface.py", "forward", "")), "forward"),
        ((TRAINER, MODEL, ("transformers/loss/loss_utils.py", "ForCausalLMLoss", "")), "loss"),
        ((TRAINER, (*MODEL[:2], "logits = self.lm_head(hidden_states)"), LINEAR), "loss"),
        (
            (
                TRAINER,
                ("accelerate/accelerator.py", "backward", ""),
                ("torch/utils/checkpoint.py", "backward", ""),
                MODEL,
                LINEAR,
            ),
            "backward",
        ),
        ((("accelerate/optimizer.py", "step", ""), STEP), "optimizer_step"),
        ((STEP, ("torch/optim/adamw.py", "_init_group", "")), "optimizer_step"),
        (
            (
                ("bitsandbytes/optim/optimizer.py", "step", ""),
                ("bitsandbytes/optim/optimizer.py", "get_state_buffer", ""),
            ),
            "optimizer_step",
        ),
        # A closure of Lightning's: the optimizer calls the passes.
        ((STEP, ("lightning/loops/closure.py", "closure", ""), TRAINER, MODEL), "forward"),
        ((STEP, TRAINER, ("torch/_tensor.py", "backward", "")), "backward"),
        ((("transformers/modeling_utils.py", "from_pretrained", ""), MODEL), "load"),
        ((("torch/nn/modules/module.py", "_apply", ""),), "load"),
        ((("deepspeed/runtime/engine.py", "_broadcast_model", ""),), "load"),
        ((("transformers/generation/utils.py", "generate", ""), MODEL, LINEAR), "prefill"),
        (
            (
                ("transformers/generation/utils.py", "generate", ""),
                MODEL,
                ("transformers/cache_utils.py", "update", "self.keys = torch.cat("),
            ),
            "decode",
        ),
        ((("vllm/v1/worker/gpu_worker.py", "determine_available_memory", ""), MODEL), "prefill"),
        ((("vllm/v1/worker/gpu_model_runner.py", "capture_model", ""), MODEL), "decode"),
        ((("vllm/v1/worker/gpu_model_runner.py", "initialize_kv_cache", ""),), None),
        ((("sglang/srt/model_executor/model_runner.py", "forward_decode", ""), MODEL), "decode"),
        ((("script.py", "<module>", "main()"),), None),
    ],
)
def test_a_traceback_has_an_instant(
    calls: tuple[tuple[str, str, str], ...], instant: str | None
) -> None:
    """Outer frames decide, but for a pass inside of an optimizer's step."""
    assert classify(*calls) == instant


@pytest.mark.parametrize(
    "line",
    [
        '  File "/x/torch/_tensor.py", line 492, in backward',
        '[rank0]:   File "/x/torch/_tensor.py", line 492, in backward',
        "File /x/torch/_tensor.py:492, in Tensor.backward(self)",
        "/x/torch/_tensor.py in backward(self, gradient)",
        "│ /x/torch/_tensor.py:492 in backward                  │",
        "│ C:\\x\\torch\\_tensor.py:492 in backward             │",
    ],
)
def test_a_frame_is_read_in_all_its_forms(line: str) -> None:
    """CPython's, IPython's two and rich's are the same call."""
    reader = FrameReader()

    reader.feed(1, line, None)

    (frame,) = reader.take(2, None)
    assert frame.file.endswith("torch/_tensor.py")
    assert frame.function == "backward"


def test_ranks_keep_their_frames_apart() -> None:
    """Lines of several processes come mixed."""
    reader = FrameReader()
    reader.feed(1, 'File "a.py", line 1, in f', "0")
    reader.feed(2, 'File "b.py", line 1, in g', "1")

    reader.feed(3, "x = 1", "0")

    assert [frame.file for frame in reader.take(4, "0")] == ["a.py"]
    assert reader.take(4, "0")[0].code == "x = 1"
    assert reader.take(4, "1")[0].code == ""
    assert reader.take(400, "1") == ()


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("[rank3]: x", "3"),
        ("(VllmWorker rank=2 pid=7) ERROR", "2"),
        ("[2025-03-29 18:18:34 TP5] x", "5"),
        ("(EngineCore_DP0 pid=94) x", "EngineCore_DP0 pid=94"),
        ("x", None),
    ],
)
def test_a_line_names_its_rank(line: str, rank: str | None) -> None:
    """Launchers and engines put it before what they print."""
    assert find_rank(line) == rank
