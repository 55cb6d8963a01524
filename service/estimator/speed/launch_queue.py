"""A host that launches kernels, and the GPU behind it.

Launches are asynchronous: the host runs ahead as far as it is faster, and the GPU waits where it is
slower. A synchronisation lets both begin together (CUDA programming guide, "Asynchronous
Concurrent Execution").
"""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class LaunchQueue:
    """Ends of both sides' work, in seconds since the last synchronisation.

    ``host_busy`` and ``gpu_busy`` are what each of them worked.
    """

    host: float = 0.0
    gpu: float = 0.0
    host_busy: float = 0.0
    gpu_busy: float = 0.0

    def run(self, host_s: float, gpu_s: float) -> float:
        """Run one stretch of even operations; return its end on the GPU.

        Within a stretch every operation takes the longer of both, so that the GPU ends behind its
        own work and not before the host's last launch.
        """
        begin = max(self.gpu, self.host)
        self.host += host_s
        self.gpu = max(begin + gpu_s, self.host)
        self.host_busy += host_s
        self.gpu_busy += gpu_s
        return self.gpu
