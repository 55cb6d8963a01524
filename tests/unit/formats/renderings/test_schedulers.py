"""The same job for Kubernetes, Slurm, Ray and SkyPilot, held against what each of them takes."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from service.estimator.values.layout import Layout
from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.renderings.job import Job
from service.formats.renderings.render import render
from tests.unit.formats.renderings.builders import FULLY_SHARDED, ZERO_3, a_job, flags_of

SCHEMAS = Path(__file__).with_name("schemas")
CHAT = ServeWorkload(num_sequences=8, prompt_tokens=512, engine=Engine.VLLM)
ONE_NODE = replace(ZERO_3, data_parallel=4)
LARGE = Layout(tensor_parallel=8, pipeline_parallel=2, data_parallel=3)
JOBS = {
    "one node": a_job(layout=ONE_NODE),
    "two nodes": a_job(),
    "accelerate": a_job(layout=FULLY_SHARDED),
    "replicas": a_job(CHAT, Layout(tensor_parallel=2, data_parallel=3), gpu="H100-SXM5-80GB"),
    "large replicas": a_job(CHAT, LARGE, model="llama-2-70b"),
    "slice": a_job(CHAT, Layout(), mig_profile="3g.40gb"),
    "script": a_job(replace(CHAT, engine=Engine.TRANSFORMERS), Layout(data_parallel=2)),
    "named nodes": a_job(nodes=("n1", "n7")),
    "memory alone": replace(a_job(layout=ONE_NODE), gpu=None),
    "amd": replace(a_job(layout=ONE_NODE, gpu="MI300X-192GB"), image="registry.example/rocm:1"),
}


def _rendered(job: Job, name: str) -> Any:  # noqa: ANN401 - a document of that scheduler
    return render(job)[name]


def _workload_object(job: Job) -> dict[str, Any]:
    found: dict[str, Any] = _rendered(job, "kubernetes")["items"][-1]
    return found


def _pod(job: Job) -> dict[str, Any]:
    spec = _workload_object(job)["spec"]
    template = spec.get("template") or spec["leaderWorkerTemplate"]["workerTemplate"]
    found: dict[str, Any] = template["spec"]
    return found


@pytest.mark.parametrize("name", JOBS)
def test_kubernetes_takes_every_object(name: str) -> None:
    """Each object has the fields of its kind, and none that its kind has not."""
    schema = json.loads((SCHEMAS / "kubernetes.json").read_bytes())
    validator = jsonschema_rs.validator_for(schema)

    assert [
        error.message for error in validator.iter_errors(_rendered(JOBS[name], "kubernetes"))
    ] == []


@pytest.mark.parametrize("name", JOBS)
def test_skypilot_takes_every_task(name: str) -> None:
    """Each task has the fields of SkyPilot's schema, and none beyond."""
    schema = json.loads((SCHEMAS / "skypilot.json").read_bytes())
    validator = jsonschema_rs.validator_for(schema)

    assert [
        error.message for error in validator.iter_errors(_rendered(JOBS[name], "skypilot"))
    ] == []


@pytest.mark.parametrize("name", JOBS)
def test_shells_can_read_every_script(name: str) -> None:
    """Bash parses the batch script, SkyPilot's commands and the pod's command line."""
    job = JOBS[name]
    for script in (
        _rendered(job, "slurm"),
        _rendered(job, "skypilot")["run"],
        _pod(job)["containers"][0]["command"][2],
    ):
        checked = subprocess.run(
            ["bash", "-n"],  # noqa: S607 - the one of PATH
            input=script,
            text=True,
            capture_output=True,
            check=False,
        )

        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("name", JOBS)
def test_all_of_them_ask_for_the_same_gpus(name: str) -> None:
    """GPUs per node times nodes times replicas are those of the layout, in each scheduler's
    words.
    """
    job = JOBS[name]
    kubernetes, ray, sky = _pod(job), _rendered(job, "ray"), _rendered(job, "skypilot")
    lines = flags_of(
        [
            line.removeprefix("#SBATCH ")
            for line in _rendered(job, "slurm").splitlines()
            if "#SBATCH" in line
        ],
    )
    pods = job.num_nodes * job.replicas
    (limit,) = kubernetes["containers"][0]["resources"]["limits"].values()
    bundles = ray["placement_group"]["bundles"]
    per_node = [
        int(lines["gres"].rpartition(":")[2]),
        int(limit),
        int(bundles[0]["GPU"]),
        _sky_count(sky),
    ]

    assert [count * pods for count in per_node] == [job.layout.num_gpus] * 4
    assert (int(lines["nodes"]), len(bundles), sky["num_nodes"]) == (job.num_nodes,) * 3
    assert ray["num_placement_groups"] == job.replicas


def _sky_count(task: dict[str, Any]) -> int:
    resources = task["resources"]
    first = resources["ordered"][0] if "ordered" in resources else resources
    return int(str(first["accelerators"]).rpartition(":")[2])


def test_an_indexed_job_gives_each_node_its_rank() -> None:
    """Two pods of one job find the first by its name, which the headless service makes known."""
    job = JOBS["two nodes"]
    spec, pod = _workload_object(job)["spec"], _pod(job)
    kinds = [item["kind"] for item in _rendered(job, "kubernetes")["items"]]

    assert kinds == ["ConfigMap", "Service", "Job"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 2, 2)
    assert pod["subdomain"] == "llama-2-7b-train"
    assert "HEAD_ADDRESS=llama-2-7b-train-0.llama-2-7b-train;" in pod["containers"][0]["command"][2]


def test_files_are_where_the_pods_command_looks() -> None:
    """The configuration is mounted, and the command names the mounted file."""
    pod = _pod(JOBS["one node"])

    assert "--deepspeed /etc/launch/deepspeed_config.json" in pod["containers"][0]["command"][2]
    assert {"name": "launch", "configMap": {"name": "llama-2-7b-train"}} in pod["volumes"]


@pytest.mark.parametrize(
    ("name", "resource", "placed"),
    [
        (
            "one node",
            "nvidia.com/gpu",
            {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}},
        ),
        (
            "slice",
            "nvidia.com/mig-3g.40gb",
            {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}},
        ),
        ("amd", "amd.com/gpu", {}),
    ],
)
def test_gpus_have_the_names_of_their_device_plugin(
    name: str, resource: str, placed: dict[str, Any]
) -> None:
    """A resource of the vendor, and NVIDIA's product label where feature discovery gives one."""
    pod = _pod(JOBS[name])

    assert list(pod["containers"][0]["resources"]["limits"]) == [resource]
    assert {key: pod[key] for key in ("nodeSelector", "affinity") if key in pod} == placed


def test_a_gpu_of_known_memory_alone_is_any_with_as_much() -> None:
    """The label counts MiB and ``Gt`` is strict; SkyPilot has a word for it."""
    job = JOBS["memory alone"]
    terms = _pod(job)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]

    least = job.device.usable_bytes // 2**20 - 1
    assert terms[0]["matchExpressions"] == [
        {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": [str(least)]}
    ]
    assert _rendered(job, "skypilot")["resources"] == {"accelerators": "79GB+:4"}
    assert "accelerator_type" not in _rendered(job, "ray")["actor_options"]


def test_a_slice_is_no_whole_gpu_of_its_kind() -> None:
    """Ray asks for a resource of its own in place of the whole GPU's type, and that SkyPilot cannot
    is told.
    """
    ray = _rendered(JOBS["slice"], "ray")
    notes = _rendered(JOBS["slice"], "launch")["notes"]

    assert ray["placement_group"]["bundles"] == [{"GPU": 1, "mig-3g.40gb": 1}]
    assert ray["actor_options"] == {"num_gpus": 1, "resources": {"mig-3g.40gb": 1}}
    assert any("SkyPilot" in note and "whole A100-80GB" in note for note in notes)
    assert not any("SkyPilot" in note for note in _rendered(JOBS["replicas"], "launch")["notes"])


def test_ray_runs_the_command_in_each_bundle() -> None:
    """A job's files are those of the launch and of the program that starts it; several servers of
    one job would listen on one port.
    """
    job = _rendered(JOBS["two nodes"], "ray")["job"]
    shape = json.loads(job["files"]["shape.json"])

    assert job["entrypoint"] == "python start_nodes.py"
    assert shape["bundles"] == _rendered(JOBS["two nodes"], "ray")["placement_group"]["bundles"]
    assert (shape["folder"], shape["groups"], shape["ranks"]) == (".", 1, True)
    assert {"command.sh", "start_nodes.py", "deepspeed_config.json"} < set(job["files"])
    assert "${NODE_RANK}" in job["files"]["command.sh"]
    assert _rendered(JOBS["replicas"], "ray")["job"] is None


def test_what_only_the_user_knows_is_asked_for() -> None:
    """A variable that a command stops without is one that who launches it has to say."""
    ray, sky = (_rendered(JOBS["slice"], word) for word in ("ray", "skypilot"))

    assert (ray["job"]["env_vars"], sky["envs"]) == ({"CHECKPOINT": None}, {"CHECKPOINT": None})


def test_a_placed_job_names_its_nodes() -> None:
    """What a cluster promised is asked for by name."""
    job = JOBS["named nodes"]
    terms = _pod(job)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]

    assert "#SBATCH --nodelist=n1,n7\n" in _rendered(job, "slurm")
    assert terms[0]["matchExpressions"][0]["values"] == ["n1", "n7"]


def test_a_job_asks_of_each_node_what_it_was_given_there() -> None:
    """Four GPUs on each of four nodes are no eight on two of them; without the place, as few nodes
    as there can be.
    """
    free = replace(a_job(nodes=("n1", "n2", "n3", "n4")), gpus_of_each=4)

    assert "#SBATCH --nodes=4\n" in _rendered(free, "slurm")
    assert "#SBATCH --nodelist=n1,n2,n3,n4\n" in _rendered(free, "slurm")
    assert "#SBATCH --nodes=2\n" in _rendered(replace(free, gpus_of_each=None), "slurm")
    assert "--nodelist" not in _rendered(replace(free, gpus_of_each=None), "slurm")


def test_several_names_of_one_gpu_are_tried_in_order() -> None:
    """Clouds call an H100 by two names in SkyPilot."""
    resources = _rendered(JOBS["replicas"], "skypilot")["resources"]

    assert resources["ordered"] == [{"accelerators": "H100-SXM:2"}, {"accelerators": "H100:2"}]


def test_slurm_starts_each_replica_as_an_element_of_an_array() -> None:
    """Three replicas are three jobs; a type is spelt as Slurm spells what NVML tells."""
    script = _rendered(JOBS["replicas"], "slurm")

    assert "#SBATCH --array=0-2\n" in script
    assert "#SBATCH --gres=gpu:nvidia_h100_80gb_hbm3:2\n" in script


def test_names_are_ones_that_kubernetes_takes() -> None:
    """Slashes, dots and capitals of a model's name are gone (RFC 1123)."""
    job = replace(JOBS["one node"], model_name="Meta-Llama/Llama-3.1_70B" + "x" * 60)

    assert job.name == "meta-llama-llama-3-1-70bxxxxxxxxxxxxxxxx-train"


def _list_slurm_options(job: Job) -> list[str]:
    lines = str(_rendered(job, "slurm")).splitlines()
    return [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")]


def test_part_of_a_node_asks_for_its_processors_and_memory() -> None:
    """Slurm would give one CPU and all of the node's memory to a job that asks for neither."""
    options = _list_slurm_options(JOBS["one node"])

    assert {"--cpus-per-task=16", "--mem=65536M"} <= set(options)
    assert "--exclusive" not in options


def test_a_full_node_is_its_jobs_own() -> None:
    """All of its memory too, as far as the answer keeps nothing on the host."""
    full = JOBS["two nodes"]
    options = _list_slurm_options(full)
    offloaded = _list_slurm_options(replace(full, host_bytes_per_node=1024**4))

    assert {"--exclusive", "--mem=0"} <= set(options)
    assert {"--exclusive", "--mem=1179648M"} <= set(offloaded)
    assert not any("--cpus" in option for option in options + offloaded)


def test_slurm_calls_a_slice_by_its_gpu_and_profile() -> None:
    """As its detection by NVML names the type; a profile alone is no type that a node has."""
    options = _list_slurm_options(JOBS["slice"])

    assert "--gres=gpu:nvidia_a100-sxm4-80gb_3g.40gb:1" in options
    assert {"--cpus-per-task=4", "--mem=16384M"} <= set(options)
