"""Objects of a bucket under the names that `pathlib.Path` has for files, by the client `obstore`.

Credentials are found as AWS' and Google's own tools find them: credentials, region and endpoint of ``s3://`` by `boto3`
(the environment, ``AWS_ENDPOINT_URL``, ``AWS_PROFILE``, ``AWS_ACCESS_KEY_ID`` ..., the files ``~/.aws``, or the
machine's role); of ``gs://`` by `google.auth` (``GOOGLE_APPLICATION_CREDENTIALS``, what ``gcloud`` keeps, or the
machine's account). All come with the extra ``[storage]`` and are loaded at first use. What a store answers is never
repeated, since it may hold a key: its code is, and what it means, in one line.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import cache
from pathlib import PurePosixPath
from typing import Any

from probes.errors import UserError
from probes.versions import pip_line

SCHEMES = ("s3", "gs")
KEPT = "run the same command again to go on, finished parts are kept"
LARGE = 2**23  # bytes; a larger object has PATIENT seconds to be sent, where others have BRIEF
BRIEF, PATIENT = 30.0, 900.0
CONNECT = 10.0  # seconds
RETRIES = 8  # of a request that failed on the way or was answered 5xx
RETRIED = 90.0  # seconds within which
LARGEST = 5 * 2**30  # bytes that a single PUT of S3 takes; Google takes more

_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_STATUS = re.compile(r"status code: (\d{3})")
_REMEDIES = {  # by the code of a refusal, https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
    "NoSuchBucket": "create the bucket, or choose another --out",
    "PermanentRedirect": "set AWS_DEFAULT_REGION to the region of the bucket",
    "AuthorizationHeaderMalformed": "set AWS_DEFAULT_REGION to the region of the bucket",
    "RequestTimeTooSkewed": "set the clock of this machine",
}
_NAMED = {"s3": "AWS_PROFILE, AWS_ACCESS_KEY_ID", "gs": "GOOGLE_APPLICATION_CREDENTIALS"}
_REACHED = {"s3": "the network and AWS_ENDPOINT_URL", "gs": "the network"}
_EMULATED = "STORAGE_EMULATOR_HOST"  # where Google's own tools find a server that stands in for Google's
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"


class ChangedError(Exception):
    """An object is not, or no longer, as a conditional write expected it."""


class StorageError(UserError):
    """Object storage refused a request, or did not answer."""


@dataclass(frozen=True, order=True)
class ObjectPath:
    """An object, or the prefix of several, by its address; has those names of `pathlib.Path` that runs need."""

    scheme: str
    bucket: str
    key: str  # without a slash at either end; empty for the bucket itself

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}{'/' * bool(self.key)}{self.key}"

    def __truediv__(self, name: str) -> ObjectPath:
        return ObjectPath(self.scheme, self.bucket, f"{self.key}{'/' * bool(self.key)}{name}")

    @property
    def name(self) -> str:
        """The last component, or the bucket's name."""
        return self._pure.name or self.bucket

    @property
    def stem(self) -> str:
        """The last component without its suffix."""
        return self._pure.stem

    @property
    def parent(self) -> ObjectPath:
        """The prefix that this stands under; of a bucket itself."""
        return ObjectPath(self.scheme, self.bucket, str(self._pure.parent) if "/" in self.key else "")

    @property
    def _pure(self) -> PurePosixPath:
        return PurePosixPath(self.key)

    def resolve(self) -> ObjectPath:
        """This address: there are no links."""
        return self

    absolute = expanduser = resolve

    # What is there

    def exists(self) -> bool:
        """Return whether there is an object of this name; a prefix is none, see `is_dir`. One request (HEAD)."""
        try:
            self._do(lambda store: store.head(self.key))
        except FileNotFoundError:
            return False
        return True

    is_file = exists

    def is_dir(self) -> bool:
        """Return whether an object stands under this prefix. One request (LIST)."""
        return (
            next(iter(self._do(lambda store: next(iter(store.list(self.key, chunk_size=1)), ()))), None)
            is not None
        )

    def entries(self) -> dict[str, Mapping[str, Any] | None]:
        """Return the entries directly under this prefix, by name: an object's listing, or None for a prefix.

        One request (LIST) for each thousand.
        """
        found = self._do(lambda store: store.list_with_delimiter(self.key or None))
        names = {PurePosixPath(one).name: None for one in found["common_prefixes"]}
        return dict(
            sorted((names | {PurePosixPath(one["path"]).name: one for one in found["objects"]}).items())
        )

    def iterdir(self) -> Iterator[ObjectPath]:
        """Yield what stands directly under this prefix, in order of names."""
        return (self / name for name in self.entries())

    def glob(self, pattern: str) -> Iterator[ObjectPath]:
        """Yield what stands directly under this prefix and has a name that fits."""
        return (path for path in self.iterdir() if fnmatchcase(path.name, pattern))

    # Read, write, remove

    def read(self) -> tuple[bytes, dict[str, str]]:
        """Return the content of an object and its version, by which `write` is conditional. One request (GET)."""

        def get(store: Any) -> tuple[bytes, dict[str, str]]:
            found = store.get(self.key)
            return bytes(found.bytes()), _version(found.meta)

        return self._do(get)

    def read_bytes(self) -> bytes:
        """Return the content of an object; raises FileNotFoundError where there is none."""
        return self.read()[0]

    def read_text(self, encoding: str = "utf-8") -> str:
        """Return the content of an object as text."""
        return self.read_bytes().decode(encoding)

    def write(
        self, data: bytes | memoryview, expected: Mapping[str, str] | str | None = "any"
    ) -> dict[str, str]:
        """Write an object by a single PUT, if it has the version expected (None: is not there); return its version."""
        if len(data) > LARGEST:
            raise UserError(
                f"{self}: expected at most {LARGEST / 2**30:.0f} GiB in a file, which one PUT writes, got"
                f" {len(data) / 2**30:.1f}: set generate.part_triplets to less"
            )
        mode = {"any": "overwrite"}.get(expected) if isinstance(expected, str) else expected or "create"
        view = memoryview(data).cast("B")

        def put(store: Any) -> dict[str, str]:
            return _version(store.put(self.key, view, mode=mode, use_multipart=False))

        return self._do(put, size=len(data), changed=mode != "overwrite")

    def unlink(self, missing_ok: bool = True) -> None:
        """Remove an object, if it is there. One request (DELETE)."""
        with contextlib.suppress(FileNotFoundError):  # not all storages say so
            self._do(lambda store: store.delete(self.key))

    def _delete(self, keys: list[str]) -> None:
        try:
            self._do(lambda store: store.delete(keys))
        except FileNotFoundError:  # others after it may be there still
            for key in keys:
                ObjectPath(self.scheme, self.bucket, key).unlink()

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: a prefix is there once an object stands under it."""

    def rmdir(self) -> None:
        """Do nothing: a prefix is gone with the last object under it."""

    def _do(self, request: Callable[[Any], Any], *, size: int = 0, changed: bool = False) -> Any:
        store = opened(self.scheme, self.bucket, size)
        with requested(str(self), ChangedError if changed else None):
            return request(store)


def tag(meta: Mapping[str, Any]) -> str:
    """Return the ETag by which contents are distinguished, without the quotes that some stores add."""
    return str(meta.get("e_tag") or "").strip('"')


def _version(meta: Mapping[str, Any]) -> dict[str, str]:
    return {name: meta[name] for name in ("e_tag", "version") if meta.get(name) is not None}


# The client


@cache
def _obstore(place: str = "") -> Any:
    try:
        import obstore.exceptions
        import obstore.store
    except ImportError:
        raise _without(place or "object storage", "obstore") from None
    return obstore


def opened(scheme: str, bucket: str, size: int = 0) -> Any:
    """Return the client of a bucket; the same one for each request of a process."""
    return _opened(scheme, bucket, PATIENT if size > LARGE else BRIEF)


@cache
def _opened(scheme: str, bucket: str, seconds: float) -> Any:
    kind, provider, settings = _KINDS[scheme](f"{scheme}://{bucket}")
    return kind(
        bucket,
        credential_provider=provider,
        client_options={
            "allow_http": any(value.startswith("http:") for value in settings.values()),
            "connect_timeout": timedelta(seconds=CONNECT),
            "timeout": timedelta(seconds=seconds),
        },
        retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=max(RETRIED, seconds))},
        **settings,
    )


_Found = tuple[type, Callable[[], Any], dict[str, str]]


def _aws(place: str) -> _Found:
    """The client of S3, with credentials, region and endpoint as AWS' own tools find them."""
    kind = _obstore(place).store.S3Store
    try:
        import boto3
        from botocore.exceptions import BotoCoreError
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise _without(place, "boto3") from None
    try:
        session = boto3.Session()
        client = session.client("s3", region_name=session.region_name or "us-east-1")
        if session.get_credentials() is None:
            raise _without_credentials(place, "AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
        settings = {"endpoint": client.meta.endpoint_url, "region": client.meta.region_name}
        return kind, Boto3CredentialProvider(session), settings
    except (BotoCoreError, ValueError) as error:  # what it says names a profile, a file or an endpoint
        raise UserError(
            f"{place}: expected a profile and an endpoint by which it is reached, got `{type(error).__name__}`:"
            " check AWS_PROFILE, AWS_ENDPOINT_URL and ~/.aws"
        ) from None


def _google(place: str) -> _Found:
    """The client of Google's storage, with credentials as Google's own tools find them; none where it is emulated."""
    kind = _obstore(place).store.GCSStore
    emulated = os.environ.get(_EMULATED)
    if emulated:
        address = emulated if "://" in emulated else f"http://{emulated}"
        return kind, _nobody, {"base_url": address.rstrip("/")}
    try:
        import google.auth
        from google.auth.exceptions import GoogleAuthError
        from obstore.auth.google import GoogleCredentialProvider
    except ImportError:
        raise _without(place, "google-auth") from None
    try:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
        return kind, GoogleCredentialProvider(credentials), {}
    except (GoogleAuthError, ValueError):  # what it says names a file
        raise _without_credentials(
            place, "GOOGLE_APPLICATION_CREDENTIALS, or call `gcloud auth application-default login`"
        ) from None


_KINDS: Mapping[str, Callable[[str], _Found]] = {"s3": _aws, "gs": _google}


def _nobody() -> dict[str, Any]:
    return {"token": "none", "expires_at": None}


def _without(place: str, library: str) -> UserError:
    return UserError(
        f"{place}: expected the libraries that reach object storage, found no `{library}`:"
        f" {pip_line('storage')}"
    )


def _without_credentials(place: str, remedy: str) -> UserError:
    return UserError(f"{place}: expected credentials of the object storage, found none: set {remedy}")


@contextmanager
def requested(place: str, changed: type[Exception] | None = None) -> Iterator[None]:
    """Turn what the client raises into FileNotFoundError, StorageError or, of conditional writes, `changed`."""
    errors = _obstore().exceptions
    try:
        yield
    except (errors.AlreadyExistsError, errors.PreconditionError) as error:
        if changed is None:
            raise _refused(place, error) from None
        raise changed(place) from None
    except FileNotFoundError as error:
        if _code(error) == "NoSuchBucket":
            raise _refused(place, error) from None
        if changed is not None:
            raise changed(place) from None
        raise FileNotFoundError(place) from None
    except (errors.BaseError, OSError) as error:
        # another write at the same moment
        if changed is not None and _code(error) == "ConditionalRequestConflict":
            raise changed(place) from None
        raise _refused(place, error) from None


def _code(error: Exception) -> str:
    text = str(error)
    found = _CODE.search(text) or _STATUS.search(text)
    return found[1] if found else ""


def _refused(place: str, error: Exception) -> StorageError:
    code, errors = _code(error), _obstore().exceptions
    scheme = place.partition("://")[0]
    if code in _REMEDIES:
        remedy = _REMEDIES[code]
    elif isinstance(error, (errors.PermissionDeniedError, errors.UnauthenticatedError)) or code in (
        "401",
        "403",
    ):
        remedy = f"check the credentials ({_NAMED[scheme]}) and their rights to list, read, write and delete"
    elif not code:
        why = "no answer in time" if "timed out" in str(error).lower() else "no connection"
        return StorageError(
            f"{place}: object storage cannot be reached ({why}): check {_REACHED[scheme]}, then {KEPT}"
        )
    else:
        remedy = KEPT
    return StorageError(f"{place}: refused by the object storage ({code or type(error).__name__}): {remedy}")
