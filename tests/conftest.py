"""Settings every test relies on: nothing from the network, as many threads as OMP_NUM_THREADS says, or one."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["MPLBACKEND"] = "Agg"  # also where a notebook's terminal sets another

import pytest

THREADS = int(os.environ["OMP_NUM_THREADS"].split(",")[0])


@pytest.fixture(autouse=True)
def threads() -> None:
    """Small tensors run faster on one thread; whoever asks for more gets them in every test.

    Set anew for each test, as command lines with ``--threads`` leave their own behind.
    """
    import torch

    if torch.get_num_threads() != THREADS:
        torch.set_num_threads(THREADS)
