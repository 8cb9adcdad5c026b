"""Who of a cluster is given which part, with workers that are played: every part once or more, whoever is lost."""

import traceback

import pytest

from probes.errors import UserError
from probes.execution.cluster import starts
from probes.execution.cluster.pending import PartTask
from probes.execution.cluster.pool import FAILURES, LOSSES, Pool
from probes.execution.cluster.starts import MOST
from tests.probes.execution.cluster.fake_ray import VERSIONS, Killed, bug, played


def tasks(count):
    return [PartTask(number, f"hash{number}", 3) for number in range(count)]


def pool_on(ray, expected=2, limit=None, **options):
    options = {"versions": VERSIONS, "say": lambda line: None} | options
    return Pool(ray, ray, expected, limit, **options)


def made(ray, count=20, expected=2, limit=None, **options):
    """What became of so many parts: the pool, how many images it told of, and the parts that failed."""
    pool, told = pool_on(ray, expected, limit, **options), []
    failed = pool.make("module:opened", "{}", tasks(count), told.append)
    return pool, sum(task.images for task in told), failed


def all_of(what, *parts):
    """What becomes of some parts, whoever has them."""

    def become(part, worker):
        if part in parts:
            raise what

    return become


def test_every_part_is_made_once_by_all_workers_and_none_waits_for_the_driver():
    ray = played({"a": 1, "b": 1})
    pool, images, failed = made(ray, 40)
    assert (sorted(ray.made), images, failed) == ([*range(40)], 120, {})
    assert {worker for worker, _ in ray.sent} == {1, 2}
    assert ray.most_at_once == 2 and len(ray.sent) == 40
    assert (str(pool.lost), pool.most, pool.devices) == ("", 2, ["GPU"])


def test_one_worker_more_than_there_is_room_for_stands_by_and_takes_the_machine_that_joins():
    ray = played({"a": 1})

    def joins(ray):
        if len(ray.made) == 3:
            ray.machines["late"] = 2

    ray.loses = joins
    pool, *_ = made(ray, 30, expected=1)
    assert pool.most == 3 and ray.started == 4  # and one stands by again
    assert {ray.place[worker] for worker, _ in ray.sent} == {"a", "late"}


@pytest.mark.parametrize("seed", range(5))
def test_whoever_is_lost_at_whatever_moment_all_parts_are_made(seed):
    """Workers and machines are lost at random, one for good, others come back or join."""
    ray = played({"a": 2, "b": 2, "c": 1}, seed=seed)
    draw, losses = ray.draw, {"worker": 0, "node": 0}

    def loses(ray):
        chance = draw.random()
        if chance < 0.05 and ray.place:
            losses["worker"] += 1
            ray.lose(draw.choice([*ray.place]))
        elif chance < 0.07 and len(ray.machines) > 1 and losses["node"] < 5:
            losses["node"] += 1
            ray.lose_node(draw.choice([*ray.machines]))
        elif chance < 0.09:
            ray.machines[draw.choice("bcd")] = 2

    ray.loses = loses
    pool, images, failed = made(ray, 60, expected=5)
    assert failed == {} and images == 180
    assert set(ray.made) == set(range(60))
    assert len(pool.lost.nodes) <= losses["node"]  # of a worker that has no call it is not heard
    again = len(ray.made) - 60  # made a second time, as the worker was lost before it had said so
    assert again <= pool.lost.parts


def test_a_part_that_fails_three_times_is_named_and_the_rest_goes_on_by_fresh_workers():
    tried = []

    def what(part, worker):
        if part == 7:
            tried.append(worker)
            bug()

    ray = played({"a": 1}, what)
    pool, images, failed = made(ray, 20, expected=1)
    assert failed == {7: "Traceback\nKeyError: 'x'\n"} and images == 57
    assert len(tried) == FAILURES == len(set(tried))
    assert str(pool.lost) == ""


def test_a_part_that_kills_its_worker_is_named_too():
    ray = played({"a": 2}, all_of(Killed(), 3))
    pool, images, failed = made(ray, 20, expected=2)
    assert list(failed) == [3] and f"{LOSSES} workers were lost at it" in failed[3]
    assert images == 57 and pool.lost.workers == LOSSES


def test_no_room_on_a_device_is_raised_when_no_part_is_under_way_any_more():
    under_way, room = [], [4]
    ray = played({"a": 3}, lambda part, worker: all_of(MemoryError("no room"), *room)(part, worker))
    pool = pool_on(ray, 3)
    with pytest.raises(MemoryError, match="no room"):
        pool.make("module:opened", "{}", tasks(40), under_way.append)
    assert not any(call[1] == "make_part" for actor in ray.actors.values() for call in actor.calls)
    assert len(ray.made) == len(under_way) < 40
    room.clear()
    assert pool.make("module:opened", "{}", tasks(40)) == {} and set(ray.made) == set(range(40))


def test_another_kind_of_device_is_refused_unless_it_is_allowed():
    def device(worker):
        return "A100" if worker == 1 else "V100"

    with pytest.raises(
        UserError, match=r"(A100, like the first, got V100|V100, like the first, got A100) on there"
    ):
        made(played({"a": 2}, device=device), 40)
    pool, *_ = made(played({"a": 2}, device=device), 40, mixed=True)
    assert sorted(pool.devices) == ["A100", "V100"]


def test_another_version_of_a_library_is_refused():
    ray = played({"a": 2})
    pool = pool_on(ray, versions={"torch": "2.10"})
    with pytest.raises(UserError, match=r"expected torch 2\.10 on there, as on the driver, found 2\.9"):
        pool.make("module:opened", "{}", tasks(3))


def test_workers_that_do_not_start_end_the_run(monkeypatch):
    monkeypatch.setattr(starts, "UNNOTICED", 0.0)
    pool = pool_on(played({"a": 1}, device=bug))
    with pytest.raises(RuntimeError, match="KeyError") as caught:
        pool.make("module:opened", "{}", tasks(3))
    assert "in a worker on there:\nTraceback" in "".join(traceback.format_exception(caught.value))
    ray = played({"a": 1}, loses=lambda ray: ray.place and ray.lose(next(iter(ray.place))))
    with pytest.raises(UserError, match=f"lost {MOST} in a row before they were ready"):
        made(ray)


def test_a_question_is_asked_of_another_worker_if_the_first_is_lost():
    ray = played({"a": 1})
    ray.loses = lambda ray: 1 in ray.place and ray.actors[1].calls[0][1] == "answer" and ray.lose(1)
    pool = pool_on(ray, 1)
    assert pool.ask("module:asked", "text") == ["module:asked", "text"]
    assert ray.started >= 2 and pool.lost.workers >= 1
