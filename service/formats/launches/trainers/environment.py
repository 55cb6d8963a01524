"""Environment of a trainer's launch: variables, and GPUs of one process."""

from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.trainers.processes import Processes, count_visible
from service.formats.launches.trainers.setup import TrainerSetup
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
_SEVERAL = 2
_SPREADING = frozenset({"auto", "balanced", "balanced_low_0", "sequential"})
"""Words of ``device_map`` that spread layers over GPUs."""


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


def ask_replicas(
    processes: Processes, handed_in: HandedIn, draft: Draft, setup: TrainerSetup
) -> None:
    """Ask how one process with several GPUs is meant.

    Trainer replicates on them (transformers 5.23, ``_wrap_model``): without model parallelism it is
    ``nn.DataParallel`` of a batch for each GPU, and none of them holds less than a process of one
    GPU. DeepSpeed's processes have one GPU each.
    """
    number, places = count_visible(handed_in)
    if number is None or number < _SEVERAL or processes.is_started or setup.uses_all_gpus:
        return
    texts = ", ".join(f"{place.key} {place.value}" for place in places)
    placed = setup.model.peek("device_map")
    if placed is not None and str(placed.value) in _SPREADING:
        draft.warn(
            f"{texts}: {placed.key} {placed.value} spreads the layers over {number} GPUs, of which "
            "there is no term: the answer is for all on one"
        )
        return
    draft.ask(
        "layout.data_parallel",
        f"{texts}: one process has {number} GPUs, which Trainer runs by nn.DataParallel: the first "
        "keeps gradients and optimizer states, gathers everybody's logits and sends the weights "
        f"anew each step, of which there is no term. `torchrun --nproc_per_node {number}` starts "
        "one a GPU, CUDA_VISIBLE_DEVICES=0 leaves one",
        (number, 1),
        lower_bound=1,
    )
