"""A SLURM of two nodes on this machine: each in namespaces of its own (network, host name, processes).

    unshare --net --uts --mount --pid --fork --kill-child --mount-proc python -m tests.slurm.two_nodes FOLDER -- COMMAND

starts munged, slurmctld and a slurmd on ``node1`` and ``node2``, runs a command with ``SLURM_CONF`` set, and ends with
its status. Nodes and controller speak over a bridge inside the namespaces, and whatever was started ends with the outer
one. Needs to be root, and Debian's packages slurmctld, slurmd, slurm-client and munge (22.05).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "squeue", "sinfo", "ip", "unshare")
NODES = {"node1": "10.77.0.11", "node2": "10.77.0.12"}
CONTROLLER = "10.77.0.1"
PATIENCE = 120  # seconds until the nodes are idle
OUTER = ("unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
CONF = """
ClusterName=triptych
SlurmctldHost=controller({controller})
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=5
MinJobAge=36000
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """What this machine lacks to run the cluster; empty where nothing is."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    absent = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    if os.geteuid():
        return "namespaces of the network need root"
    try:
        done = subprocess.run(
            [*OUTER, "ip", "link", "add", "br0", "type", "bridge"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr.strip() if done.returncode else ""


def call(*command: object) -> None:
    """Run a command that is to succeed."""
    subprocess.run([str(word) for word in command], check=True)


def inside(child: int) -> int:
    """The process in the namespaces of a node, whose first one `unshare` has forked."""
    until = time.monotonic() + PATIENCE
    file = Path(f"/proc/{child}/task/{child}/children")
    while not file.read_text().split():
        assert time.monotonic() < until, "no process in the namespaces of a node"
        time.sleep(0.02)
    return int(file.read_text().split()[0])


def started(folder: Path) -> None:
    """Start the controller and the nodes; returns when both are idle."""
    (folder / "state").mkdir(parents=True)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    nodes = "\n".join(
        f"NodeName={name} NodeAddr={address} CPUs=1 State=UNKNOWN" for name, address in NODES.items()
    )
    conf = folder / "slurm.conf"
    conf.write_text(CONF.format(folder=folder, controller=CONTROLLER, nodes=nodes))
    os.environ["SLURM_CONF"] = str(conf)
    os.environ["PATH"] += os.pathsep + "/usr/sbin:/sbin"
    call("hostname", "controller")
    call("ip", "link", "set", "lo", "up")
    call("ip", "link", "add", "br0", "type", "bridge")
    call("ip", "addr", "add", f"{CONTROLLER}/24", "dev", "br0")
    call("ip", "link", "set", "br0", "up")
    place = [f"--{name}={folder}/munge.{name}" for name in ("socket", "pid-file", "log-file", "seed-file")]
    call("munged", "--force", f"--key-file={key}", *place)
    for name, address in NODES.items():
        node(name, address)
    subprocess.Popen(["slurmctld", "-D", "-f", conf], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE
    while True:
        done = subprocess.run(["sinfo", "-h", "-N", "-o", "%T"], capture_output=True, text=True)
        if done.stdout.split() == ["idle"] * len(NODES):
            return
        logs = "\n".join(file.read_text()[-2000:] for file in sorted(folder.glob("slurm*.log")))
        assert time.monotonic() < until, f"{done.stdout} {done.stderr}\n{logs}"
        time.sleep(0.2)


def node(name: str, address: str) -> None:
    """Start a node: namespaces with a cable to the bridge, and a slurmd in them."""
    script = (
        f"hostname {name}; ip link set lo up; "
        "until ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done; "
        f"ip addr add {address}/24 dev eth0; ip link set eth0 up; exec slurmd -D -f $SLURM_CONF"
    )
    new = [
        "unshare",
        "--net",
        "--uts",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-c",
    ]
    process = subprocess.Popen([*new, script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    call(
        "ip",
        "link",
        "add",
        f"to-{name}",
        "type",
        "veth",
        "peer",
        "name",
        "eth0",
        "netns",
        inside(process.pid),
    )
    call("ip", "link", "set", f"to-{name}", "master", "br0", "up")


def main(arguments: list[str]) -> int:
    """Start the cluster, run a command on it, and give its status."""
    folder, _, *command = arguments
    started(Path(folder).resolve())
    return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
