"""FID and KID of two sets of features by torch-fidelity (Obukhov et al. 2020, Apache 2.0), on whatever features."""

from __future__ import annotations

from importlib import metadata

import numpy as np
from numpy.typing import NDArray

from probes.errors import missing_package

SUBSETS, SUBSET_SIZE = 100, 1000  # of KID, as torch-fidelity has them
PACKAGE = "torch-fidelity"


def fidelity(
    first: NDArray[np.float64], second: NDArray[np.float64], *, seed: int = 0
) -> tuple[dict[str, float], str]:
    """Return the package's own numbers of two sets of features ``(n, d)``, and its name and version.

    ``fid``; ``kid``, the mean over subsets with a cubic kernel, and ``kid_sd``, its standard deviation over them (which
    is no standard error). Subsets are of the package's 1,000 images, or of as many as the smaller set has.
    """
    require()
    import torch
    from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric
    from torch_fidelity.metric_kid import kid_features_to_metric

    tensors = [torch.from_numpy(np.ascontiguousarray(one, np.float64)) for one in (first, second)]
    fid = fid_statistics_to_metric(*map(fid_features_to_statistics, tensors), verbose=False)
    kid = kid_features_to_metric(
        *tensors,
        kid_subsets=SUBSETS,
        kid_subset_size=min(SUBSET_SIZE, len(first), len(second)),
        rng_seed=seed,
        verbose=False,
    )
    values = {
        "fid": fid["frechet_inception_distance"],
        "kid": kid["kernel_inception_distance_mean"],
        "kid_sd": kid["kernel_inception_distance_std"],
    }
    return values, f"{PACKAGE} {metadata.version(PACKAGE)}"


def require() -> None:
    """Refuse to go on without the package."""
    try:
        import torch_fidelity  # noqa: F401
    except ImportError:
        raise missing_package("FID, KID and Inception", PACKAGE, "quality") from None
