"""Resources of the API that the controller reads and writes.

Kueue 0.19 (v1beta2), JobSet 0.12, Kubeflow Trainer 2.3, KubeRay 1.7.
"""

from service.formats.manifests.kueue import GATE
from service.kueue.api import Resource

CONTROLLER = GATE
"""``spec.controllerName`` of our AdmissionChecks, and the name of our gate."""
JOBS = Resource(group="batch", version="v1", plural="jobs", kind="Job")
JOB_SETS = Resource(group="jobset.x-k8s.io", version="v1alpha2", plural="jobsets", kind="JobSet")
TRAIN_JOBS = Resource(
    group="trainer.kubeflow.org", version="v1alpha1", plural="trainjobs", kind="TrainJob"
)
RAY_JOBS = Resource(group="ray.io", version="v1", plural="rayjobs", kind="RayJob")
GATED = (JOBS, JOB_SETS, TRAIN_JOBS, RAY_JOBS)
"""Kinds whose gates are looked after: those that are rendered with one, all of which hooks read."""
_KUEUE, _VERSION = "kueue.x-k8s.io", "v1beta2"
WORKLOADS = Resource(group=_KUEUE, version=_VERSION, plural="workloads", kind="Workload")
CHECKS = Resource(group=_KUEUE, version=_VERSION, plural="admissionchecks", kind="AdmissionCheck")
FLAVORS = Resource(group=_KUEUE, version=_VERSION, plural="resourceflavors", kind="ResourceFlavor")
EVENTS = Resource(group="events.k8s.io", version="v1", plural="events", kind="Event")
LEASES = Resource(group="coordination.k8s.io", version="v1", plural="leases", kind="Lease")
