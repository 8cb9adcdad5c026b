"""Locks of the system on files, which end with the process that holds them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


class Lock:
    """A lock of the system on a file, which is made if there is none; a context manager, at whose end it is let go.

    Attributes
    ----------
    works : bool
        Whether the file system has locks, as far as it was tried; where it has none, each is taken.
    """

    def __init__(self, path: Path):
        self._path, self.works = path, True

    def __enter__(self) -> Lock:
        self._file = open(self._path, "a+b")  # a shared lock asks some systems for one that is read
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.close()

    def there(self) -> bool:
        """Whether the file is still where it was opened; True where that cannot be told."""
        try:
            return self._path.exists() and os.fstat(self._file.fileno()).st_nlink > 0
        except OSError:  # of a network file system that does not answer
            return True

    def taken(self, *, shared: bool = False) -> bool:
        """Take the lock, or change how it is held; False where another process holds it, and this one none then."""
        try:
            import fcntl
        except ImportError:  # no such lock on Windows
            self.works = False
            return True
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(self._file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            return False
        except OSError:  # some network file systems have no locks
            self.works = False
            return True
        if os.fstat(self._file.fileno()).st_nlink:
            return True
        self._file.close()  # it was removed meanwhile, by a process whose run came to nothing
        self.__enter__()
        return self.taken(shared=shared)
