"""Scheduler without values, for a pipeline that runs on fake tensors."""

from types import SimpleNamespace

import torch

STEPS = 2
"""Steps of a recorded loop: what one leaves behind is there while the next one runs."""


class FlowScheduler:
    """Euler steps of flow matching, tensor by tensor as diffusers takes them.

    (``FlowMatchEulerDiscreteScheduler.step`` of diffusers 0.42: the sample is upcast, the step is
    its sum with the scaled prediction, in the prediction's format.)
    """

    order = 1

    def __init__(self) -> None:
        """Start before the first step."""
        self.config = SimpleNamespace(
            num_train_timesteps=1000,
            base_image_seq_len=256,
            max_image_seq_len=4096,
            base_shift=0.5,
            max_shift=1.15,
            shift=1.0,
            use_flow_sigmas=True,
            use_dynamic_shifting=False,
        )
        self.config.get = lambda name, default=None: getattr(self.config, name, default)
        self.sigmas = [0.5] * STEPS
        self.timesteps: list[torch.Tensor] = []
        self.init_noise_sigma = 1.0

    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        device: object = None,
        *,
        sigmas: object = None,
        mu: object = None,
        timesteps: object = None,
    ) -> None:
        """Take so many steps."""
        del num_inference_steps, device, sigmas, mu, timesteps
        self.timesteps = [torch.zeros(()) for _ in range(STEPS)]

    def set_begin_index(self, index: int) -> None:
        """Begin at the first step."""

    def scale_model_input(self, sample: torch.Tensor, timestep: object) -> torch.Tensor:
        """Return the sample itself."""
        del timestep
        return sample

    def step(
        self,
        prediction: torch.Tensor,
        timestep: object,
        sample: torch.Tensor,
        *,
        return_dict: bool = False,
    ) -> tuple[torch.Tensor]:
        """Return the sample after a step."""
        del timestep, return_dict
        upcast = sample.to(torch.float32)
        scaled = 0.5 * prediction
        following = upcast + scaled
        return (following.to(prediction.dtype),)


class EulerScheduler(FlowScheduler):
    """Euler steps on scaled noise, as Stable Diffusion takes them.

    (``EulerDiscreteScheduler`` of diffusers 0.42: the input is scaled, the sample upcast, the
    original sample and the derivative are made before the step.)
    """

    def scale_model_input(self, sample: torch.Tensor, timestep: object) -> torch.Tensor:
        """Return the sample, scaled."""
        del timestep
        return sample / 2.0

    def step(
        self,
        prediction: torch.Tensor,
        timestep: object,
        sample: torch.Tensor,
        *,
        return_dict: bool = False,
    ) -> tuple[torch.Tensor]:
        """Return the sample after a step."""
        del timestep, return_dict
        upcast = sample.to(torch.float32)
        original = upcast - 0.5 * prediction
        derivative = (upcast - original) / 0.5
        following = upcast + derivative * 0.5
        return (following.to(prediction.dtype),)
