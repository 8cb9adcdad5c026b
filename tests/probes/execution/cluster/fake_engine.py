"""Engines without Ray: one whose workers are played, and one whose workers are real but in this process."""

import json
import random
from collections import deque

from probes.execution.cluster.engine import Heard
from probes.execution.cluster.worker import Worker, libraries

VERSIONS = {"torch": "2.9"}


class Played:
    """Workers that make nothing; `what` says what becomes of a part, `loses` who is lost.

    Parameters
    ----------
    nodes : mapping
        Machines and the workers that each has room for; may be changed while it goes on.
    what : callable, optional
        Given a part's number and a worker's, gives what a worker answers beside what it made; None where it is made.
    loses : callable, optional
        Given this engine before each answer, gives a worker that is lost now, or None.
    """

    def __init__(self, nodes, what=None, loses=None, seed=0, device=lambda worker: "GPU", seconds=1.0):
        self.nodes, self.what, self.loses = dict(nodes), what or (lambda part, worker: None), loses
        self.device, self.seconds = device, seconds
        self.draw = random.Random(seed)
        self.calls = {}  # of workers that live
        self.place = {}
        self.opened = set()  # workers that were heard to be open
        self.made, self.sent, self.started = [], [], 0
        self.dead = set()  # machines that were lost with workers, once that is known
        self.most_at_once = 0

    def start(self):
        self.started += 1
        self.calls[self.started] = deque([("placed",)])
        return self.started

    def shared(self, text):
        return text

    def send(self, worker, call, *told):
        if call == "made":
            assert worker in self.opened, "a worker was given parts before it had answered that it is open"
            parts = [number for number, _ in json.loads(told[0])]
            self.sent.append((worker, parts))
            told = (parts,)
        elif call in ("opened", "asked"):
            self.opened.discard(worker)
        self.calls[worker].append((call, *told))
        self.most_at_once = max(self.most_at_once, sum(call == "made" for call, *_ in self.calls[worker]))

    def drop(self, worker):
        del self.calls[worker]
        self.place.pop(worker, None)

    def lose(self, worker, node=None):
        self.drop(worker)
        self.opened.discard(worker)
        return Heard(worker, lost="it was killed", node=node)

    def lose_node(self, node, known=True):
        """A machine and all its workers, whose loss may be heard of before it is known that the machine is."""
        del self.nodes[node]
        lost = [worker for worker, at in self.place.items() if at == node]
        if known and lost:
            self.dead.add(node)
        return [self.lose(worker, node if known else None) for worker in lost]

    def gone(self):
        return self.dead

    def heard(self, seconds):
        self._place()
        if self.loses and (lost := self.loses(self)) is not None:
            return lost if isinstance(lost, list) else [self.lose(lost)]
        able = [worker for worker in self.place if self.calls[worker]]
        if not able:
            return []
        worker = self.draw.choice(able)
        call, *told = self.calls[worker].popleft()
        answer = getattr(self, f"_{call}")(worker, *told)
        return [answer] if isinstance(answer, Heard) else [Heard(worker, call, answer)]

    def _place(self):
        for worker in self.calls:
            free = [node for node, room in self.nodes.items() if list(self.place.values()).count(node) < room]
            if worker not in self.place and free:
                self.place[worker] = self.draw.choice(free)

    def _placed(self, worker):
        return {"host": self.place[worker], "versions": VERSIONS}

    def _asked(self, worker, function, text):
        return {"answer": [function, text]}

    def _opened(self, worker, function, text):
        answer = self.device(worker)
        if isinstance(answer, dict):
            return answer
        self.opened.add(worker)
        return {"device": answer}

    def _made(self, worker, parts):
        done = []
        for number in parts:
            fault = self.what(number, worker)
            if fault == "killed":
                return self.lose(worker)
            if fault is not None:
                return {"made": done, "failed": number, **fault}
            done.append(number)
            self.made.append(number)
        return {"made": done, "seconds": self.seconds * len(parts)}


class InThisProcess:
    """Real workers, called where they are told to answer; `room` of them are placed."""

    def __init__(self, room=2, loses=()):
        self.room, self.loses = room, deque(loses)  # after so many answers to `made` its worker is lost
        self.workers, self.calls, self.answers, self.number = {}, deque(), 0, 0

    def start(self):
        self.number += 1
        self.workers[self.number] = Worker()
        self.send(self.number, "placed")
        return self.number

    def shared(self, text):
        return text

    def send(self, worker, call, *told):
        assert all(isinstance(one, str) for one in told)
        self.calls.append((worker, call, told))

    def drop(self, worker):
        del self.workers[worker]
        self.calls = deque(entry for entry in self.calls if entry[0] != worker)

    def gone(self):
        return set()

    def heard(self, seconds):
        placed = [*self.workers][: self.room]
        mine = next((entry for entry in self.calls if entry[0] in placed), None)
        if mine is None:
            return []
        self.calls.remove(mine)
        worker, call, told = mine
        answer = json.loads(getattr(self.workers[worker], call)(*told))
        if call == "made":
            self.answers += 1
            if self.loses and self.answers == self.loses[0]:  # its file is written, its answer is lost
                self.loses.popleft()
                self.drop(worker)
                return [Heard(worker, lost="it was killed")]
        return [Heard(worker, call, answer)]


def here():
    """The versions that a pool in this process expects."""
    return libraries()
