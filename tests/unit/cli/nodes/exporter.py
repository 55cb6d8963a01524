"""Pages of the DCGM exporter."""

HOST = "gpu-node-1"
A100 = "NVIDIA A100-SXM4-80GB"


def write_page(*lines: str) -> str:
    """Return a page as DCGM exporter 4 writes it, cut to memory.

    Labels and their order: github.com/NVIDIA/dcgm-exporter, issue 138 of gpu-monitoring-tools for a
    pod's and internal/pkg/transformation/const.go for their names.
    """
    return (
        "# HELP DCGM_FI_DEV_FB_USED Framebuffer memory used (in MiB).\n"
        "# TYPE DCGM_FI_DEV_FB_USED gauge\n" + "".join(f"{line}\n" for line in lines)
    )


def write_line(mib: int, pod: str = "", gpu: int = 0, host: str = HOST, more: str = "") -> str:
    """Return the line of a GPU, which is nobody's without ``namespace/pod``."""
    namespace, _, name = pod.partition("/")
    container = "main" if name else ""
    return (
        f'DCGM_FI_DEV_FB_USED{{gpu="{gpu}",UUID="GPU-227ba87f-fcf3-c09a-dc3b-c72ea412970{gpu}",'
        f'pci_bus_id="00000000:0{gpu}:00.0",device="nvidia{gpu}",modelName="{A100}",{more}'
        f'Hostname="{host}",DCGM_FI_DRIVER_VERSION="580.126.20",container="{container}",'
        f'namespace="{namespace}",pod="{name}"}} {mib}'
    )
