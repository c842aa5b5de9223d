"""Kills a manager before every one of its steps, restarts it, and looks whether everything that must hold does.

One point is: a process brings a namespace into a state, goes on with a scenario and is killed with SIGKILL before its
n-th step; readers look; a restart may be killed in the same way before *its* m-th step; then comes one restart that is
left alone, and after it the invariants are looked at, byte by byte.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from shmcache import settings
from shmcache.manager import wire
from shmcache.memory.control import open_control_reader
from shmcache.memory.index import IndexReader
from shmcache.memory.names import Namespace, object_path
from shmcache.memory.objects import list_objects
from shmcache.memory.segments import Mapping, map_segment
from tests.crash.invariants import Facts, broken_at_rest, broken_by_restart, broken_for_readers
from tests.crash.rig import Rig, key_of
from tests.crash.scenarios import Scenario
from tests.crash.seam import Counter, before_every_step

GUARD_SECONDS = 20
FINISHED = 0
FAILED = 1


@dataclass
class Report:
    """How many points of a scenario were tried, and what was wrong at which of them."""

    scenario: str
    steps: int = 0
    restart_points: int = 0
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Left:
    """What a killed process left in shared memory: mode and content by the end of the object's name."""

    objects: dict[str, tuple[int, bytes]]

    @classmethod
    def of(cls, namespace: Namespace) -> Left:
        objects = {}
        for name in list_objects(namespace.prefix):
            path = object_path(name)
            objects[name.removeprefix(namespace.prefix)] = (path.stat().st_mode & 0o777, path.read_bytes())
        return cls(objects)

    def put_into(self, namespace: Namespace) -> None:
        for end, (mode, content) in self.objects.items():
            path = object_path(namespace.prefix + end)
            path.write_bytes(content)
            path.chmod(mode)


def explore(scenario: Scenario, *, every: int = 1, restarts_every: int = 0, restart_step_every: int = 1) -> Report:
    """Tries every ``every``-th step of a scenario, and at each ``restarts_every``-th of those the steps of the restart.

    The last point is the scenario that nobody kills.
    """
    report, step, is_finished = Report(scenario.name), 0, False
    while not is_finished and not report.failures:
        is_nested = restarts_every > 0 and (step // every) % restarts_every == 0
        is_finished = try_point(scenario, step, report, restart_step_every if is_nested else 0)
        report.steps += 1
        step += every
    return report


def try_point(scenario: Scenario, step: int, report: Report, restart_step_every: int = 0) -> bool:
    """Tries one step; whether the scenario ended before it. What is wrong goes into the report."""
    with own_namespace() as namespace, collecting(report, f"step {step}"):
        facts, readers, code = _killed_in(scenario, namespace, step)
        _complain(report, f"step {step}, before the restart", broken_for_readers(namespace, facts))
        left = Left.of(namespace) if restart_step_every else None
        _restart(scenario, namespace, facts, readers, report, f"step {step}")
        if left is not None:
            _try_restarts(scenario, left, facts, step, report, restart_step_every)
        return code == FINISHED
    return True


def _try_restarts(
    scenario: Scenario, left: Left, facts: Facts, step: int, report: Report, restart_step_every: int
) -> None:
    """Kills the restart before each of its steps, always from the same leftovers."""
    restart_step, code = 0, -1
    while code != FINISHED and not report.failures:
        place = f"step {step}, step {restart_step} of the restart"
        with own_namespace() as namespace, collecting(report, place):
            left.put_into(namespace)
            readers = _map(namespace, scenario.mapped)
            code = _run_killed(
                lambda namespace=namespace: Rig(namespace, limit_bytes=scenario.limit_bytes).settle(),  # type: ignore[misc]
                restart_step,
            )
            _complain(report, place, broken_for_readers(namespace, facts))
            _restart(scenario, namespace, facts, readers, report, place)
            report.restart_points += 1
            restart_step += restart_step_every


def _killed_in(scenario: Scenario, namespace: Namespace, step: int) -> tuple[Facts, list[Mapping], int]:
    """Prepares and acts in a child, which is killed; what was there before, readers' mappings, and the exit code."""
    prepared, prepare_end = os.pipe()
    go_end, go = os.pipe()

    def act() -> Callable[[], object]:
        rig = scenario.prepare(namespace)
        os.write(prepare_end, b"p")
        os.read(go_end, 1)
        return lambda: scenario.act(namespace, rig)

    try:
        child = _fork(act, step, closes=(prepared, go))
        os.close(prepare_end)
        prepare_end = -1
        if os.read(prepared, 1) != b"p":
            os.waitpid(child, 0)
            raise AssertionError("the scenario cannot be prepared")
        facts = Facts.of(namespace)
        readers = _map(namespace, scenario.mapped)
        os.write(go, b"g")
        return facts, readers, _wait(child)
    finally:
        for descriptor in (prepared, prepare_end, go_end, go):
            if descriptor >= 0:
                os.close(descriptor)


def _run_killed(run: Callable[[], object], step: int) -> int:
    return _wait(_fork(lambda: run, step))


def _fork(make: Callable[[], Callable[[], object]], step: int, closes: tuple[int, ...] = ()) -> int:
    """A child that makes something unwatched and then runs it, to be killed before that step."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = FAILED
    try:
        signal.alarm(GUARD_SECONDS)
        for descriptor in closes:
            os.close(descriptor)
        run = make()
        with before_every_step(Counter(step)):
            run()
        code = FINISHED
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _wait(child: int) -> int:
    """0 when the child ended its work, -SIGKILL when it was killed as it should be; anything else is a failure."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (FINISHED, -signal.SIGKILL):
        raise AssertionError(f"the process ended with {code}")
    return code


def _restart(
    scenario: Scenario, namespace: Namespace, facts: Facts, readers: list[Mapping], report: Report, place: str
) -> None:
    """The one restart that nobody disturbs, and everything that must hold after it."""
    left = Facts.of(namespace)
    rig = Rig(namespace, limit_bytes=scenario.limit_bytes)
    try:
        rig.settle()
        _complain(report, place, broken_by_restart(rig, left))
        _complain(report, place, broken_at_rest(rig, facts, is_mapped=bool(readers)))
        answer = rig.compile("vocabulary") if not _has_vocabulary(rig) else None
        assert answer is None or isinstance(answer, wire.Image), answer
        _complain(report, place + ", a new entry", [] if _is_served(rig) else ["a new grammar is not cached"])
        while readers:
            readers.pop().check_payload()
        rig.settle()
        _complain(report, place + ", at the end", broken_at_rest(rig, facts, is_mapped=False))
    finally:
        rig.stop()
        for channel in rig._supervisor.channels:
            channel.close()


def _has_vocabulary(rig: Rig) -> bool:
    return rig.server.shelf.index.look_up(key_of("vocabulary")) is not None


def _is_served(rig: Rig) -> bool:
    answer = rig.compile("after", rows=["row after"])
    found = rig.server.shelf.index.look_up(key_of("after"))
    return isinstance(answer, wire.Image) and found is not None and found.serial == answer.serial


def _map(namespace: Namespace, name: str) -> list[Mapping]:
    """A reader's mapping of an entry, retired or not, if there is one."""
    try:
        control = open_control_reader(namespace)
        entries = [entry for entry in IndexReader(control).read_all() if name and entry.key == key_of(name)]
        return [map_segment(namespace.data_name(control.instance, entry.serial)) for entry in entries]
    except FileNotFoundError:
        return []


def _complain(report: Report, place: str, broken: list[str]) -> None:
    report.failures += [f"{report.scenario}: {place}: {what}" for what in broken]


@contextmanager
def collecting(report: Report, place: str) -> Iterator[None]:
    """Whatever is raised inside is a failure at that place."""
    try:
        yield
    except Exception:
        report.failures.append(f"{report.scenario}: {place}: {traceback.format_exc()}")


@contextmanager
def own_namespace() -> Iterator[Namespace]:
    """A namespace that nobody else uses, gone afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="shmc-", dir=settings.RUNTIME_DIRECTORY.value()))
    namespace = Namespace.of(f"crash-{os.urandom(8).hex()}", directory=directory)
    try:
        yield namespace
    finally:
        for name in list_objects(namespace.prefix):
            object_path(name).unlink()
        shutil.rmtree(directory, ignore_errors=True)
