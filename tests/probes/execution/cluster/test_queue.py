"""The queue of a cluster, with workers that are played: every part once more or less, whoever is lost."""

import traceback

import pytest

from probes.errors import UserError
from probes.execution.cluster import queue
from probes.execution.cluster.engine import Heard, Lost, PartTask
from probes.execution.cluster.queue import FAILURES, LOSSES, Pool
from tests.probes.execution.cluster.fake_engine import VERSIONS, Played

BUG = {"bug": "Traceback\nKeyError: 'x'\n", "line": "KeyError: 'x'"}


def shards(count):
    return [PartTask(number, f"hash{number}", 3) for number in range(count)]


def pool_on(engine, expected=2, limit=None, **options):
    return Pool(engine, expected, limit, versions=VERSIONS, say=lambda line: None, **options)


def made(engine, count=20, expected=2, limit=None, **options):
    """What became of so many parts: the pool, how many images it told of, and the parts that failed."""
    pool, told = pool_on(engine, expected, limit, **options), []
    failed = pool.make("module:opened", "{}", shards(count), told.append)
    return pool, sum(told), failed


def test_every_part_is_made_once_by_all_workers_and_none_waits_for_the_driver():
    engine = Played({"a": 1, "b": 1})
    pool, images, failed = made(engine, 40)
    assert (sorted(engine.made), images, failed) == ([*range(40)], 120, {})
    assert {worker for worker, _ in engine.sent} == {1, 2}
    assert engine.most_at_once == 2 and all(len(parts) == 1 for _, parts in engine.sent)
    assert (str(pool.lost), pool.most, pool.devices) == ("", 2, ["GPU"])


def test_one_worker_more_than_there_is_room_for_stands_by_and_takes_the_machine_that_joins():
    engine = Played({"a": 1})

    def joins(engine):
        if len(engine.made) == 3:
            engine.nodes["late"] = 2

    engine.loses = joins
    pool, *_ = made(engine, 30, expected=1)
    assert pool.most == 3 and engine.started == 4  # and one stands by again
    assert {engine.place[worker] for worker, _ in engine.sent} == {"a", "late"}


def test_no_more_workers_than_are_wanted_or_than_there_are_parts():
    engine = Played({"a": 9})
    made(engine, 30, expected=9, limit=3)
    assert engine.started == 3
    engine = Played({"a": 9})
    made(engine, 2, expected=9)
    assert engine.started == 2


@pytest.mark.parametrize("seed", range(30))
def test_whoever_is_lost_at_whatever_moment_all_parts_are_made(seed):
    """Workers and machines are lost at random, one for good, others come back or join."""
    engine = Played({"a": 2, "b": 2, "c": 1}, seed=seed, seconds=1e-4 if seed % 3 == 0 else 1.0)
    draw, losses = engine.draw, {"worker": 0, "node": 0}

    def loses(engine):
        chance = draw.random()
        if chance < 0.05 and engine.place:
            losses["worker"] += 1
            return draw.choice([*engine.place])
        if chance < 0.07 and len(engine.nodes) > 1 and losses["node"] < 5:
            losses["node"] += 1
            return engine.lose_node(draw.choice([*engine.nodes]))
        if chance < 0.09:
            engine.nodes[draw.choice("bcd")] = 2
        return None

    engine.loses = loses
    pool, images, failed = made(engine, 60, expected=5)
    assert failed == {} and images == 180
    assert set(engine.made) == set(range(60))
    assert losses["worker"] <= pool.lost.workers and len(pool.lost.nodes) <= losses["node"]
    again = len(engine.made) - 60  # made a second time, as the worker was lost before it had said so
    assert again <= pool.lost.parts


def test_a_worker_that_is_lost_right_after_its_answer_has_its_part_made_again():
    class AtOnce(Played):
        struck = False

        def heard(self, seconds):
            told = super().heard(seconds)
            answers = [one for one in told if one.call == "made"]
            if answers and not self.struck:
                self.struck = True
                self.drop(answers[0].worker)
                told.append(Heard(answers[0].worker, lost="killed"))
            return told

    engine = AtOnce({"a": 1, "b": 1})
    pool, images, failed = made(engine, 10)
    assert (images, failed) == (30, {}) and set(engine.made) == set(range(10))
    assert pool.lost.workers == 1 and pool.lost.parts >= len(engine.made) - 10 >= 1


def test_a_machine_that_is_known_to_be_lost_after_its_workers_is_counted():
    def loses(engine):
        if len(engine.made) == 5 and "a" in engine.nodes:
            return engine.lose_node("a", known=False)

    engine = Played({"a": 2, "b": 1}, loses=loses)
    pool, images, failed = made(engine, 20, expected=3)
    assert (images, failed, pool.lost.workers, pool.lost.nodes) == (60, {}, 2, set())
    pool.count_machines()
    assert not pool.lost.nodes
    engine.dead.add("a")  # as Ray says seconds later
    pool.count_machines()
    assert pool.lost.nodes == {"a"}


def test_what_was_lost_is_told_in_a_few_words():
    assert str(Lost(2, {"a"}, 3)) == "lost 2 workers, 1 node, 3 parts again"
    assert str(Lost(1, set(), 0)) == "lost 1 worker"


def test_parts_that_are_quick_go_together_and_all_of_a_call_that_is_lost_go_back():
    engine = Played({"a": 1}, seconds=1e-3)
    engine.loses = lambda engine: 1 if len(engine.made) > 500 and 1 in engine.place else None
    pool, images, _ = made(engine, 2000, expected=1)
    assert images == 6000 and set(engine.made) == set(range(2000))
    assert max(len(parts) for _, parts in engine.sent) == 64
    assert pool.lost.parts > 64


def test_a_part_that_fails_three_times_is_named_and_the_rest_goes_on_by_fresh_workers():
    tried = []

    def what(part, worker):
        if part == 7:
            tried.append(worker)
            return BUG
        return None

    engine = Played({"a": 1}, what)
    pool, images, failed = made(engine, 20, expected=1)
    assert failed == {7: BUG["bug"]} and images == 57
    assert len(tried) == FAILURES == len(set(tried))
    assert str(pool.lost) == ""


def test_a_part_that_kills_its_worker_is_named_too():
    engine = Played({"a": 2}, lambda part, worker: "killed" if part == 3 else None)
    pool, images, failed = made(engine, 20, expected=2)
    assert list(failed) == [3] and f"{LOSSES} workers were lost at it" in failed[3]
    assert images == 57 and pool.lost.workers == LOSSES


def test_a_machine_that_is_lost_says_nothing_about_its_parts():
    engine = Played({"a": 1})

    def loses(engine):
        if engine.sent and "a" in engine.nodes and len(engine.made) < 5 and engine.started < 3 * LOSSES:
            engine.nodes["a"] = 1
            lost = engine.lose_node("a")
            engine.nodes["a"] = 1
            engine.sent.clear()
            return lost
        return None

    engine.loses = loses
    _, images, failed = made(engine, 4, expected=1)
    assert (images, failed) == (12, {}) and engine.started > 2 * LOSSES


def test_the_first_thing_that_the_user_can_mend_stops_the_run():
    engine = Played({"a": 1}, lambda part, worker: {"mendable": "x: full: free some"} if part == 4 else None)
    with pytest.raises(UserError, match="a: x: full: free some"):
        made(engine)
    assert len(engine.made) < 20


def test_no_room_on_a_device_is_raised_when_no_part_is_under_way_any_more():
    under_way = []

    def what(part, worker):
        return {"memory": "no room"} if part == 4 else None

    engine = Played({"a": 3}, what)
    pool = pool_on(engine, 3)
    with pytest.raises(MemoryError, match="no room"):
        pool.make("module:opened", "{}", shards(40), under_way.append)
    assert not any(call == "made" for calls in engine.calls.values() for call, *_ in calls)
    assert len(engine.made) == len(under_way) < 40
    engine.what = lambda part, worker: None
    assert pool.make("module:opened", "{}", shards(40)) == {} and set(engine.made) == set(range(40))


def test_another_kind_of_device_is_refused_unless_it_is_allowed():
    def device(worker):
        return "A100" if worker == 1 else "V100"

    with pytest.raises(
        UserError, match=r"(A100, like the first, got V100|V100, like the first, got A100) on a"
    ):
        made(Played({"a": 2}, device=device), 40)
    pool, *_ = made(Played({"a": 2}, device=device), 40, mixed=True)
    assert sorted(pool.devices) == ["A100", "V100"]


def test_another_version_of_a_library_is_refused():
    engine = Played({"a": 2})
    pool = Pool(engine, 2, versions={"torch": "2.10"})
    with pytest.raises(UserError, match=r"expected torch 2\.10 on a, as on the driver, found 2\.9"):
        pool.make("module:opened", "{}", shards(3))


def test_workers_that_do_not_start_end_the_run():
    pool = pool_on(Played({"a": 1}, device=lambda worker: BUG))
    with pytest.raises(RuntimeError, match="KeyError") as caught:
        pool.make("module:opened", "{}", shards(3))
    assert "in a worker on a:\nTraceback" in "".join(traceback.format_exception(caught.value))
    engine = Played({"a": 1}, loses=lambda engine: next(iter(engine.place), None))
    with pytest.raises(UserError, match=f"lost {LOSSES} in a row before they were ready"):
        made(engine)


def test_no_worker_to_be_had_is_said_once(monkeypatch):
    monkeypatch.setattr(queue, "PATIENCE", -1.0)
    engine, said = Played({}), []
    rounds = []

    def loses(engine):
        rounds.append(1)
        if len(rounds) == 10:
            engine.nodes["a"] = 1

    engine.loses = loses
    Pool(engine, 1, versions=VERSIONS, say=said.append).make("module:opened", "{}", shards(3))
    assert len(said) == 1 and "no machine has room for a worker yet" in said[0]


def test_a_question_is_asked_of_another_worker_if_the_first_is_lost():
    engine = Played({"a": 1})
    engine.loses = lambda engine: 1 if engine.started == 1 and len(engine.calls[1]) == 1 else None
    pool = pool_on(engine, 1)
    assert pool.ask("module:asked", "text") == ["module:asked", "text"]
    assert engine.started >= 2 and pool.lost.workers >= 1


def test_the_workers_of_one_stage_serve_the_next():
    engine = Played({"a": 2})
    pool = pool_on(engine, 2)
    for stage in ("one", "two"):
        assert pool.make(f"{stage}:opened", "{}", shards(20)) == {}
        assert pool.ask("module:asked", "text") == ["module:asked", "text"]
    assert engine.started == 3 and len(engine.made) == 40
    pool.close()
    assert engine.calls == {}
