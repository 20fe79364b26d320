"""What the actors of these tests run; imported on the workers by its name."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any


class BadError(Exception):
    """Cannot be unpickled: its constructor takes other arguments than it passes on."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__("a text")


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Target:
    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.calls = 0
        self.received: list[tuple[str, int, Any]] = []

    def number(self) -> int:
        return self.slot

    def echo(self, value: Any) -> Any:
        return value

    def count(self) -> int:
        self.calls += 1
        return self.calls

    def sleep(self, seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    def fail(self, text: str) -> None:
        raise ValueError(text)

    def fail_badly(self) -> None:
        raise BadError(1, 2)

    def fail_mutely(self) -> None:
        raise Mute

    def exit(self) -> None:
        sys.exit(3)

    def crash(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    def unpicklable(self) -> Any:
        return (n for n in range(3))

    def receive(self, name: str, version: int, payload: Any) -> None:
        self.received.append((name, version, payload))

    def take_received(self) -> list[tuple[str, int, Any]]:
        taken, self.received = self.received, []
        return taken

    def environ(self, name: str) -> str | None:
        return os.environ.get(name)

    def modules(self) -> list[str]:
        return sorted(sys.modules)

    def draw(self) -> float:
        import numpy as np

        return float(np.random.random())  # noqa: NPY002

    def folder(self) -> str:
        import distributed

        return str(distributed.get_worker().local_directory)


class CannotUnpickle:
    """Pickles, and raises when it is unpickled where the variable is not set."""

    def __reduce__(self) -> Any:
        return _raise_unless_actor, ()


def _raise_unless_actor() -> Any:
    if os.environ.get("DTRAINER_TEST") != "seen":
        raise RuntimeError("not here")
    return CannotUnpickle()


def make_broken(slot: int) -> Target:
    raise FileNotFoundError(f"no simulator for slot {slot}")


class Closing(Target):
    def __init__(self, slot: int, path: str) -> None:
        super().__init__(slot)
        self.path = path

    def close(self) -> None:
        with open(self.path, "a") as file:  # noqa: PTH123
            file.write(f"closed {self.slot}\n")


class Returns(Target):
    def cannot_unpickle(self) -> Any:
        return CannotUnpickle()
