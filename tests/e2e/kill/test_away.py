"""A database that is away when an attempt ends: the work is not lost, and not done twice."""

from contextlib import ExitStack
from pathlib import Path

from service.db.migrate import upgrade
from service.db.session import make_engine, make_sessions
from service.embedded.postgres import run_postgres
from service.runtime.variables import parse_psycopg_url
from service.usecases.jobs import workers
from tests.processes import has_ended
from tests.running.folders import make_folder
from tests.system import IN_TIME_S, System, build_environment, has_succeeded_once
from tests.waiting import eventually


def test_postgres_is_away_when_the_result_is_there(tmp_path: Path) -> None:
    """The attempt goes on without a database and stores its result when it is back; the worker
    takes the next job.
    """
    note, gate = tmp_path / "note", tmp_path / "gate"
    with ExitStack() as stack:
        # The path of a socket holds 107 bytes.
        root = stack.enter_context(make_folder()) / "pg"
        with run_postgres(root) as url:
            upgrade(url)
            engine = make_engine(
                parse_psycopg_url("DATABASE_URL", url), application_name="headroom-test"
            )
            stack.callback(engine.dispose)
            # A lease that outlasts the outage: what is tested is the end of the attempt, not its
            # loss.
            environment = {**build_environment(url), "HEADROOM_LEASE_S": "60"}
            system = System(
                sessions=make_sessions(engine), environment=environment, dir=tmp_path, stack=stack
            )
            job_id = system.submit([{"touch": str(note)}, {"wait_for": str(gate)}])
            worker = system.start_worker()
            probe = system.wait_for_pid(note)

        gate.touch()
        eventually(lambda: has_ended(probe), within_s=IN_TIME_S)
        with run_postgres(root):
            system.wait_for_end(job_id)
            following = system.wait_for_end(system.submit([]))

            assert has_succeeded_once(system, job_id, attempt=1)
            assert has_succeeded_once(system, following.id, attempt=1)
            assert worker.poll() is None
            assert len(workers.list_workers(system.sessions, gone_after_s=IN_TIME_S)) == 1
            worker.kill()
            worker.wait()
