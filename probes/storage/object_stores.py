"""How object storage is reached: credentials as AWS' and Google's own tools find them, and refusals in one line.

The client is `obstore`, which has conditional writes. Of ``s3://`` credentials, region and endpoint come from `boto3`:
the environment (``AWS_ENDPOINT_URL``, ``AWS_PROFILE``, ``AWS_ACCESS_KEY_ID`` ...), the files ``~/.aws``, or the
machine's role; of ``gs://`` from `google.auth`: ``GOOGLE_APPLICATION_CREDENTIALS``, what ``gcloud`` keeps, or the
machine's account. All come with the extra ``[storage]`` and are loaded at first use. What a store answers is never
repeated, since it may hold a key: its code is, and what it means.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import Any

from probes.errors import UserError

SCHEMES = ("s3", "gs")
EXTRA = "pip install 'triptych[storage]'"
KEPT = "run the same command again to go on, finished parts are kept"
LARGE = 2**23  # bytes; a larger object has PATIENT seconds to be sent, where others have BRIEF
BRIEF, PATIENT = 30.0, 900.0
CONNECT = 10.0  # seconds
RETRIES, RETRIED = (
    8,
    90.0,
)  # of a request that failed on the way or was answered 5xx, and the seconds within which

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


class StorageError(UserError):
    """Object storage refused a request, or did not answer."""


@cache
def _obstore(place: str = "") -> Any:
    try:
        import obstore.exceptions
        import obstore.store
    except ImportError:
        raise _without(place or "object storage", "obstore") from None
    return obstore


def base_error() -> type[Exception]:
    """The class of the errors that the client raises."""
    return _obstore().exceptions.BaseError


def opened(scheme: str, bucket: str, size: int = 0) -> Any:
    """Return the client of a bucket; the same one for each request of a process.

    Parameters
    ----------
    size
        Of what is to be written, bytes: a large object may take longer.

    Raises
    ------
    UserError
        The extra is not installed, or there are no credentials.
    """
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
        f"{place}: expected the libraries that reach object storage, found no `{library}`: {EXTRA}"
    )


def _without_credentials(place: str, remedy: str) -> UserError:
    return UserError(f"{place}: expected credentials of the object storage, found none: set {remedy}")


@contextmanager
def requested(place: str, changed: type[Exception] | None = None) -> Iterator[None]:
    """Turn what the client raises into what it means.

    Parameters
    ----------
    place
        What was asked for, for the error.
    changed
        Raised where a conditional write finds another object than expected, or none.

    Raises
    ------
    FileNotFoundError
        There is no such object.
    StorageError
        The storage refused, or did not answer.
    """
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
        if (
            changed is not None and _code(error) == "ConditionalRequestConflict"
        ):  # another write at the same moment
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
