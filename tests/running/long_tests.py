"""Files and folders of tests that take long, with seconds of a processor.

Their order matters, and no more: ``--durations`` and a glance at a run's last minute say when it is
wrong. A folder whose files share a server is one place.
"""

SECONDS = {
    "tests/browser": 200,
    "tests/e2e/cli/test_pages.py": 80,
    "tests/e2e/http": 60,
    "tests/e2e/kill": 65,
    "tests/e2e/cli/test_up.py": 40,
    "tests/e2e/client": 40,
    "tests/e2e/contract": 40,
    "tests/e2e/cli/test_client.py": 30,
    "tests/e2e/scale": 30,
    "tests/e2e/access": 25,
    "tests/e2e/cli/test_parts.py": 25,
    "tests/unit/api/resources/test_every_model.py": 25,
    "tests/architecture/test_rooms.py": 22,
    "tests/e2e/observability": 20,
    "tests/accuracy/test_floors.py": 20,
    "tests/e2e/measure": 20,
    "tests/unit/planner/plans/test_fewest_properties.py": 15,
    "tests/e2e/cli/test_gpu_loop.py": 14,
    "tests/patterns": 14,
    "tests/unit/estimator/test_properties.py": 13,
    "tests/unit/probes/test_families.py": 12,
    "tests/unit/probes/architecture/test_recordings.py": 11,
    "tests/unit/probes/architecture/test_proofs.py": 10,
    "tests/unit/probes/ranks": 10,
    "tests/unit/probes/trace/test_axolotl.py": 10,
    "tests/unit/estimator/model/test_every_family.py": 10,
    "tests/unit/api/resources/test_ceilings.py": 10,
    "tests/e2e/restore": 10,
    "tests/unit/planner/remedies": 10,
    "tests/unit/planner/plans/test_against_brute_force.py": 9,
    "tests/unit/gpu/sweep/test_sweep.py": 8,
}
