"""Machines that clouds rent, by the GPUs in them.

Facts of the clouds' own lists: docs.aws.amazon.com/ec2 (accelerated computing instances),
cloud.google.com/compute/docs/gpus, and learn.microsoft.com/azure/virtual-machines/sizes
(gpu-accelerated).
"""

import re

INSTANCES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"p3dn\.\d*xlarge"), "V100-SXM2-32GB"),
    (re.compile(r"p3\.\d*xlarge"), "V100-SXM2-16GB"),
    (re.compile(r"p4d\.\d*xlarge"), "A100-SXM4-40GB"),
    (re.compile(r"p4de\.\d*xlarge"), "A100-SXM4-80GB"),
    (re.compile(r"p5\.\d*xlarge"), "H100-SXM5-80GB"),
    (re.compile(r"p5en?\.\d*xlarge"), "H200-SXM5-141GB"),
    (re.compile(r"p6-b200\.\d*xlarge"), "B200-SXM6-180GB"),
    (re.compile(r"p6-b300\.\d*xlarge"), "B300-SXM6-270GB"),
    (re.compile(r"g4dn\.(?:\d*xlarge|metal)"), "T4"),
    (re.compile(r"g5\.\d*xlarge"), "A10G"),
    (re.compile(r"gr?6\.\d*xlarge"), "L4"),
    (re.compile(r"g6e\.\d*xlarge"), "L40S"),
    (re.compile(r"a2-(?:high|mega)gpu-\d+g"), "A100-SXM4-40GB"),
    (re.compile(r"a2-ultragpu-\d+g"), "A100-SXM4-80GB"),
    (re.compile(r"a3-(?:high|mega|edge)gpu-\d+g"), "H100-SXM5-80GB"),
    (re.compile(r"a3-ultragpu-\d+g"), "H200-SXM5-141GB"),
    (re.compile(r"a4-highgpu-\d+g"), "B200-SXM6-180GB"),
    (re.compile(r"g2-standard-\d+"), "L4"),
    (re.compile(r"(?:standard_)?nc\d+as_t4_v3"), "T4"),
    (re.compile(r"(?:standard_)?nc\d+ads_a100_v4"), "A100-PCIE-80GB"),
    (re.compile(r"(?:standard_)?nc\d+adi?s_h100_v5"), "H100-NVL-94GB"),
    (re.compile(r"(?:standard_)?nd\d+asr_v4"), "A100-SXM4-40GB"),
    (re.compile(r"(?:standard_)?nd\d+amsr_a100_v4"), "A100-SXM4-80GB"),
    (re.compile(r"(?:standard_)?nd\d+isr_h100_v5"), "H100-SXM5-80GB"),
    (re.compile(r"(?:standard_)?nd\d+isr_h200_v5"), "H200-SXM5-141GB"),
    (re.compile(r"(?:standard_)?nd\d+isr_mi300x_v5"), "MI300X-192GB"),
)
"""The machine's name, and its GPUs'; what is cut into parts of one GPU is left out."""


def find_instance_gpu(name: str) -> str | None:
    """Return the SKU of the GPUs in a cloud's machine.

    ``None`` for what is no such name.
    """
    word = name.strip().casefold()
    return next((gpu for pattern, gpu in INSTANCES if pattern.fullmatch(word)), None)
