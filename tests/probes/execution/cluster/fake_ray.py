"""The few functions of Ray that the pool of a cluster calls, over workers that are in this process, real or played."""

import pickle
import random
from collections import deque
from types import SimpleNamespace

from probes.execution.cluster.pool import Pool
from probes.execution.cluster.worker import BugError, Worker, libraries

VERSIONS = {"torch": "2.9"}


class RayError(Exception):
    """As Ray's."""


class RayTaskError(RayError):
    """What a worker raised."""

    def __init__(self, cause):
        super().__init__(str(cause))
        self.cause = cause


class RayActorError(RayError):
    """A worker is lost."""


class Killed(Exception):
    """Raised in the place of a worker that is lost at a call."""


class Actor:
    """A worker that is asked for, with the calls that it has; `node` is that of the machine it is on."""

    def __init__(self, ray, number):
        self.number, self.node, self.lost = number, None, False
        self.calls = deque()
        self._ray, self.worker = ray, ray.made_of(number)

    def __getattr__(self, name):
        return SimpleNamespace(remote=lambda *told: self._ray.call(self, name, told))


class Answer:
    """To a call: what comes of it once there is something."""

    def __init__(self):
        self.there = False
        self.value = None


class FakeRay:
    """Ray over machines that are mappings from a name to the workers that each has room for; may be changed meanwhile.

    Parameters
    ----------
    nodes : mapping
    made_of : callable
        Given a worker's number, gives what answers its calls.
    loses : callable, optional
        Called before each answer; it may lose workers (`lose`, `lose_node`) and change `nodes`.
    """

    exceptions = SimpleNamespace(RayError=RayError, RayActorError=RayActorError)

    def __init__(self, nodes, made_of=lambda number: Worker(), loses=lambda ray: None, seed=0):
        self.machines, self.made_of, self.loses = dict(nodes), made_of, loses
        self.draw = random.Random(seed)
        self.actors, self.started = {}, 0  # those that live, by number
        self.used, self.dead = set(), set()  # machines that had workers, and that are known to be lost
        self.sent = []  # worker and part of each call of one
        self.most_at_once = 0

    @property
    def place(self):
        """The machine of each worker that is on one."""
        return {number: actor.node for number, actor in self.actors.items() if actor.node}

    def remote(self):
        """As a class of actors does."""
        self.started += 1
        self.actors[self.started] = Actor(self, self.started)
        return self.actors[self.started]

    def call(self, actor, name, told):
        answer = Answer()
        if actor.lost:
            self._lost(answer)
            return answer
        if name == "make_part":
            self.sent.append((actor.number, told[0]))
        actor.calls.append((answer, name, pickle.loads(pickle.dumps(told))))
        self.most_at_once = max(self.most_at_once, sum(call[1] == "make_part" for call in actor.calls))
        return answer

    def put(self, what):
        return what

    def nodes(self):
        return [{"NodeID": name, "Alive": name not in self.dead} for name in {*self.machines, *self.used}]

    def kill(self, actor):
        actor.lost = True
        self.actors.pop(actor.number, None)

    def get(self, answer):
        if isinstance(answer.value, Exception):
            raise answer.value
        return answer.value

    def wait(self, answers, num_returns, timeout):
        """What is there; if nothing is, and something is waited for, one worker that is drawn answers one call."""
        assert answers, "nothing is waited for"
        if timeout and not any(answer.there for answer in answers):
            self._step()
        ready = [answer for answer in answers if answer.there]
        return ready, [answer for answer in answers if not answer.there]

    def lose(self, number):
        """A worker is lost."""
        actor = self.actors.pop(number)
        actor.lost = True
        for answer, *_ in actor.calls:
            self._lost(answer)

    def lose_node(self, name, known=True):
        """A machine and all its workers, whose loss may be heard of before it is known that the machine is."""
        del self.machines[name]
        if known:
            self.dead.add(name)
        for number, node in self.place.items():
            if node == name:
                self.lose(number)

    def _lost(self, answer):
        answer.there, answer.value = True, RayActorError("The actor died.\nThe actor was killed.")

    def _step(self):
        self._put_on_machines()
        self.loses(self)
        able = [actor for actor in self.actors.values() if actor.node and actor.calls]
        if not able:
            return
        actor = self.draw.choice(able)
        answer, name, told = actor.calls[0]
        try:
            value = pickle.loads(pickle.dumps(getattr(actor.worker, name)(*told)))
        except Killed:
            self.lose(actor.number)
            return
        except Exception as error:
            value = RayTaskError(pickle.loads(pickle.dumps(error)))
        if actor.calls:  # it may be lost by now
            actor.calls.popleft()
        answer.there, answer.value = True, {**value, "node": actor.node} if name == "describe" else value

    def _put_on_machines(self):
        for actor in self.actors.values():
            free = [name for name, room in self.machines.items() if [*self.place.values()].count(name) < room]
            if not actor.node and free:
                actor.node = self.draw.choice(free)
                self.used.add(actor.node)
                self.dead.discard(actor.node)


class PlayedWorker:
    """A worker that makes nothing; `what` is given a part's number and the worker's, and may raise."""

    def __init__(self, number, made, what, device):
        self._number, self._made, self._what, self._device = number, made, what, device
        self._open = False

    def describe(self):
        return {"host": "there", "versions": VERSIONS}

    def answer(self, function, job):
        self._open = False
        return [function, job]

    def open_stage(self, function, job):
        device = self._device(self._number)
        self._open = True
        return device

    def make_part(self, number, identity):
        assert self._open and identity == f"hash{number}"
        self._what(number, self._number)
        self._made.append(number)


def played(nodes, what=lambda part, worker: None, device=lambda worker: "GPU", **options):
    """Ray with workers that are played; `made` lists the parts that they made."""
    made = []
    ray = FakeRay(nodes, lambda number: PlayedWorker(number, made, what, device), **options)
    ray.made = made
    return ray


def pool_here(ray, expected=2, **options):
    """The pool on real workers of this process."""
    return Pool(ray, ray, expected, **{"versions": libraries(), **options})


def bug(*ignored):
    """What a worker raises of a bug."""
    raise BugError("Traceback\nKeyError: 'x'\n")
