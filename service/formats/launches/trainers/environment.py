"""Environment variables of a trainer's launch."""

from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings

_ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_MESH = "PARALLELISM_CONFIG_"
_WITHOUT_EFFECT = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_DEVICE_MAX_CONNECTIONS", "NNODES"),
    *("NPROC_PER_NODE", "NODE_RANK", "MASTER_*", "RANK", "WORLD_SIZE", "LOCAL_RANK", "OMP_*"),
    *("NCCL_*", "GLOO_*", "TORCH_NCCL_*", "TORCH_DISTRIBUTED_*", "FI_*", "UCX_*", "RDMAV_*"),
    *("HF_*", "HUGGING_FACE_*", "TRANSFORMERS_*", "DATASETS_*", "TOKENIZERS_PARALLELISM"),
    *("WANDB_*", "MLFLOW_*", "COMET_*", "TENSORBOARD_*", "CLEARML_*", "SWANLAB_*", "TRACKIO_*"),
    *("PATH", "PYTHON*", "HOME", "LD_*", "TMPDIR", "LOGLEVEL", "*_LOG_LEVEL", "*_API_KEY"),
    *("ACCELERATE_LOG_LEVEL", "ACCELERATE_USE_PARALLELISM_CONFIG", "DISABLE_VERSION_CHECK"),
    *("PET_*", "FORCE_TORCHRUN", "USE_MODELSCOPE_HUB", "TORCH_LOGS", "TORCHDYNAMO_*", "CUDA_HOME"),
    *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_REQUIRE_*"),
)


def read_environment(handed_in: HandedIn, training: Settings, draft: Draft) -> None:
    """Set the allocator's mode; add accelerate's mesh to the trainer's arguments.

    accelerate 1.15, ``parallelism_config.py``; torch 2.13, ``docs/source/notes/cuda.rst``.
    """
    command = handed_in.command
    if command is None:
        return
    environment = Settings(
        [
            Setting(key=name, value=value, where=command.where)
            for name, value in command.environment.items()
        ]
    )
    allocator = environment.take(*_ALLOCATOR)
    if allocator is not None and "expandable_segments:true" in str(allocator.value).casefold():
        draft.put("workload.allocator", "expandable_segments", allocator)
    elif allocator is not None:
        draft.ignore(allocator, "the allocator is counted with its default settings")
    for name in list(environment):
        if name.startswith(_MESH):
            setting = environment.take(name)
            if setting is not None:
                training.add(name.removeprefix(_MESH).lower(), setting)
    draft.account(environment, _WITHOUT_EFFECT)
