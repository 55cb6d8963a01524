"""Releases of transformers that changed which tensors a training step makes."""

import re

from service.estimator.values.errors import InvalidInputError

NEWEST_READ = (5, 23)
"""The release whose modules every family mirrors."""
COPIES_LOGITS_BEFORE = (4, 49)
"""The loss shifted its logits by a contiguous copy of them; since then it shifts the labels
(transformers PR #35646).
"""
RETURNS_FP32_BEFORE = (4, 46)
"""Models cast their logits to fp32 themselves and returned those; since then the loss does
(``forward`` of 4.45.2 and 4.46.0 beside each other, after transformers PR #31292).
"""
STACKS_EXPERTS_SINCE = (5, 0)
"""Experts became stacked parameters; before, each was a module of linear layers, which loaders
quantised like any other.
"""
LEAVES_CACHE_SINCE = (5, 0)
"""Trainer sets ``use_cache`` of the model's config to its own argument, False by default
(transformers PR #41585).
"""
SKIPS_LOGITS_SINCE = (5, 15)
"""Trainer asks Liger's fused loss to make no logits in an evaluation of losses alone; before, its
kernels made all of them outside of training (``trainer.py``, ``prediction_step``).
"""
_RELEASE = re.compile(r"(\d+)\.(\d+)(?:\.\d+)?")


Release = tuple[int, int]
"""Major and minor number."""


def parse_transformers_release(version: str | None) -> Release | None:
    """Return major and minor of a version such as ``4.48.1``.

    None is the newest that is modelled.
    """
    if version is None:
        return None
    match = _RELEASE.fullmatch(version)
    if match is None:
        message = (
            f"framework_version {version!r} of transformers is a release, such as 4.48.1 or 5.23"
        )
        raise InvalidInputError(message, field="workload.framework_version")
    return int(match[1]), int(match[2])


def has_logit_copy(release: Release | None) -> bool:
    """Return whether the loss copies the logits to shift them."""
    return release is not None and release < COPIES_LOGITS_BEFORE


def has_fp32_logits(release: Release | None) -> bool:
    """Return whether the model's own logits are fp32."""
    return release is not None and release < RETURNS_FP32_BEFORE


def fills_cache(release: Release | None) -> bool:
    """Return whether an evaluation of Trainer fills a key/value cache."""
    return release is not None and release < LEAVES_CACHE_SINCE


def skips_logits(release: Release | None) -> bool:
    """Return whether Liger's loss makes no logits in an evaluation.

    It is one of losses alone.
    """
    return release is None or release >= SKIPS_LOGITS_SINCE


def has_stacked_experts(version: str | None) -> bool:
    """Return whether experts are stacked parameters."""
    release = parse_transformers_release(version)
    return release is None or release >= STACKS_EXPERTS_SINCE
