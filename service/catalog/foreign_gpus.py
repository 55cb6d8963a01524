"""Accelerators that are refused, each with a next step."""

import re
from dataclasses import dataclass

BY_MEMORY = 'ask by its memory, gpu.memory_bytes "{size}"'
"""How any GPU can be asked for; the command line replaces the field by its flag."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A kind of accelerator: its names and what would be right."""

    names: re.Pattern[str]
    what: str
    instead: str


_MPS = (
    "its memory is the host's, and MPS and MLX hold tensors in it by rules of their own, of which "
    "nothing here has a term"
)
_XLA = (
    "XLA compiles a program and plans its memory as a whole, of which nothing here has a term, and "
    "PyTorch's allocator is not in it"
)
_CONSUMER_AMD = (
    "the catalogue has AMD's Instinct cards (MI210 to MI355X), and no figures of Radeon and Ryzen"
)
FOREIGN = (
    Foreign(
        re.compile(
            r"(?:apple[\s_-]*)?(?:silicon|m[1-6](?:[\s_-]*(?:pro|max|ultra))?)|mac(?:book|\s|mini)?.*"
            r"|(?:apple|mps|metal|mlx)(?:[\s_-].*)?"
        ),
        "is Apple silicon",
        f"{_MPS}. Weights and cache of engine llama_cpp have the same bytes there: "
        + BY_MEMORY.format(size="24Gi")
        + " with as much as macOS lets the GPU take (iogpu.wired_limit_mb)",
    ),
    Foreign(
        re.compile(
            r"(?:google[\s_-]*|cloud[\s_-]*)?(?:tpu.*|v[2-7][ep]?(?:[\s_-]*(?:pod|lite.*|[0-9]+))?"
            r"|v5litepod.*|trillium|ironwood)"
        ),
        "is a TPU",
        f"{_XLA}. An NVIDIA or AMD GPU of as much memory would be right, such as H100-SXM5-80GB",
    ),
    Foreign(
        re.compile(r"(?:aws[\s_-]*)?(?:trainium.*|trn[12].*|inferentia.*|inf[12].*|neuron.*)"),
        "is AWS Trainium or Inferentia",
        "its compiler plans memory in a way of its own, of which nothing here has a term. An "
        "NVIDIA or AMD GPU of as much memory would be right, such as A100-SXM4-40GB",
    ),
    Foreign(
        re.compile(
            r"(?:amd[\s_-]*)?(?:radeon.*|rx[\s_-]*[5-9][0-9]{3}.*|ryzen.*|strix.*"
            r"|w[67][89][0-9]{2}.*|r9[67]00|8060s)"
        ),
        "is an AMD GPU for desktops",
        f"{_CONSUMER_AMD}: " + BY_MEMORY.format(size="24Gi"),
    ),
    Foreign(
        re.compile(r"(?:intel[\s_-]*)?(?:arc.*|[ab][3-7][0-9]0|max[\s_-]*1[15][05]0.*)"),
        "is an Intel GPU",
        "the catalogue has Intel's Gaudi2 and Gaudi3, and no figures of Arc and Max: "
        + BY_MEMORY.format(size="16Gi"),
    ),
    Foreign(
        re.compile(
            r"(?:huawei[\s_-]*)?(?:ascend.*|910[a-d].*)|mtt.*|moore[\s_-]*threads.*|cambricon.*|mlu.*"
            r"|kunlun.*|groq.*|cerebras.*|sambanova.*|graphcore.*|ipu.*"
        ),
        "is an accelerator with software of its own",
        "how that plans memory has no term here. An NVIDIA or AMD GPU of as much memory would be "
        "right, such as A100-SXM4-80GB",
    ),
    Foreign(
        re.compile(r"(?:nvidia[\s_-]*)?(?:(?:vera[\s_-]*)?rubin.*|vr200.*|r200.*)"),
        "is of NVIDIA's generation Rubin",
        "the catalogue has no figures of its cards yet: " + BY_MEMORY.format(size="288Gi"),
    ),
    Foreign(
        re.compile(r"(?:nvidia[\s_-]*)?jetson[\s_-]*(?:agx[\s_-]*)?(?:xavier|nano|tx[12]).*"),
        "is a Jetson before Orin",
        "the catalogue has Orin and Thor, and no figures of older modules: "
        + BY_MEMORY.format(size="8Gi"),
    ),
    Foreign(
        re.compile(r"(?:nvidia[\s_-]*)?grace[\s_-]*hopper.*"),
        "is a CPU and a GPU on a board",
        "say the GPU, GH200-96GB or GH200-144GB",
    ),
    Foreign(re.compile(r"(?:nvidia[\s_-]*)?t4g"), "is AWS's T4 beside Graviton", "say T4"),
    Foreign(
        re.compile(r"cpu|none|ram|host"),
        "is no GPU",
        "what is answered is the memory of a GPU; engine llama_cpp says what a host keeps. Name a "
        "GPU, or " + BY_MEMORY.format(size="64Gi"),
    ),
)


def explain_foreign(name: str) -> str | None:
    """Return why an accelerator has no answer.

    With what would be right; None for a name of none of them.
    """
    text = re.sub(r"(?<![\s_-])[\s_-]++[0-9]++\s?(?:gib|gb|g)$", "", name.casefold().strip())
    kind = next((kind for kind in FOREIGN if kind.names.fullmatch(text)), None)
    return None if kind is None else f"{name!r} {kind.what}: {kind.instead}."
