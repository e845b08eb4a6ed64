"""A machine of its own with ebb, whose console is typed on and whose power key is pressed, and a real control plane beside it,
whose kwok plays the kubelet. For the programs `drive` that scripts/vm starts: VM_IMAGE, VM_KERNEL, VM_INITRD and VM_CMDLINE are
the machine, VM_LOG gets its console.
"""
import codecs
import io
import json
import os
import pathlib
import re
import socket
import subprocess
import tarfile
import tempfile
import threading
import time

# A boot of an emulated machine takes a minute, on a busy computer more.
PATIENCE = 400
HOST_IN_GUEST = "10.0.2.2"
# Where k3s keeps the credentials of its kubelet.
K3S = "/var/lib/rancher/k3s/agent"
NETWORK = "[Match]\nName=e*\n[Network]\nAddress=10.0.2.15/24\nGateway=10.0.2.2\nLinkLocalAddressing=no\n"


class Failed(Exception):
    pass


def until(what, so, limit=PATIENCE):
    end = time.monotonic() + limit
    while True:
        found = so()
        if found:
            return found
        if time.monotonic() > end:
            raise Failed(f"not within {limit} s: {what}")
        time.sleep(0.2)


class Plane:
    """A control plane, with a Node `vm` for the machine, one for its pods to go to, and a workload."""

    def __init__(self, folder):
        ready = folder / "ready.json"
        self.process = subprocess.Popen(["target/debug/control-plane", "run", "--ready-file", str(ready)],
                                        stdin=subprocess.PIPE)
        until("the control plane is ready", ready.exists)
        self.coordinates = json.loads(ready.read_text())
        self.kubectl("create", "namespace", "shop")
        self.node("vm")
        self.kubectl("create", "deployment", "web", "--namespace=shop", "--image=web", "--replicas=3")
        until("the pods are on the machine", lambda: len(self.pods()) == 3)
        self.node("other")

    def kubectl(self, *words, **more):
        program = pathlib.Path(self.coordinates["binaries"]) / "kubectl"
        words = [program, "--kubeconfig", self.coordinates["kubeconfig"], *words]
        return subprocess.run(words, check=True, text=True, capture_output=True, **more).stdout

    def node(self, name):
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        self.kubectl("create", "--filename=-", input=json.dumps(node))
        # The node controller's own taint goes when the Node is ready.
        until(f"Node {name} is usable", lambda: "taints" not in self.get("node", name)["spec"])

    def get(self, *words):
        return json.loads(self.kubectl("get", *words, "--output=json"))

    def pods(self):
        """The pods on the machine."""
        pods = self.get("pods", "--namespace=shop", "--field-selector=spec.nodeName=vm")["items"]
        return [pod["metadata"]["name"] for pod in pods]

    def is_cordoned(self):
        return self.get("node", "vm")["spec"].get("unschedulable", False)

    def slots_group(self):
        return self.get("node", "vm")["metadata"].get("annotations", {}).get("ebb.dev/slots-group")

    def repopulate(self):
        """The pods are on the machine again, and only there."""
        self.kubectl("cordon", "other")
        self.kubectl("delete", "pods", "--all", "--namespace=shop")
        until("the pods are on the machine", lambda: len(self.pods()) == 3)
        self.kubectl("rollout", "status", "deployment/web", "--namespace=shop", "--timeout=100s")
        self.kubectl("uncordon", "other")

    def kubelet(self, folder):
        """The files of the machine's kubelet: its credentials, with an address that the machine reaches."""
        ca = pathlib.Path(self.coordinates["folder"]) / "client-ca"
        key, certificate = folder / "kubelet.key", folder / "kubelet.crt"
        subprocess.run(["openssl", "req", "-x509", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-newkey", "ec",
                        "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/O=system:nodes/CN=system:node:vm",
                        "-addext", "extendedKeyUsage=clientAuth", "-days", "2", "-keyout", key, "-out", certificate],
                       check=True, capture_output=True)
        port = self.coordinates["server"].rsplit(":", 1)[1]
        cluster = {"server": f"https://{HOST_IN_GUEST}:{port}", "tls-server-name": "kubernetes",
                   "certificate-authority": f"{K3S}/server-ca.crt"}
        user = {"client-certificate": f"{K3S}/client-kubelet.crt", "client-key": f"{K3S}/client-kubelet.key"}
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "c",
                  "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}],
                  "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}
        return {
            f"{K3S}/kubelet.kubeconfig": (json.dumps(config), 0o600),
            f"{K3S}/server-ca.crt": (pathlib.Path(self.coordinates["certificate"]).read_text(), 0o644),
            f"{K3S}/client-kubelet.crt": (certificate.read_text(), 0o644),
            f"{K3S}/client-kubelet.key": (key.read_text(), 0o600),
        }

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


class Machine:
    def __init__(self, folder, files):
        self.folder, self.text, self.at, self.number = folder, "", 0, 0
        self.tar = folder / "files.tar"
        with tarfile.open(self.tar, "w") as tar:
            for path, (text, mode) in files.items():
                member = tarfile.TarInfo(path.lstrip("/"))
                member.size, member.mode = len(text.encode()), mode
                tar.addfile(member, io.BytesIO(text.encode()))
        self.log = open(os.environ["VM_LOG"], "w", encoding="utf-8")
        self.power_on()

    def power_on(self):
        monitor = self.folder / "monitor"
        monitor.unlink(missing_ok=True)
        image = f"file={os.environ['VM_IMAGE']},if=virtio,format=raw"
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "Nehalem,-cx16", "-m", "1024", "-display", "none",
             "-serial", "stdio", "-monitor", f"unix:{monitor},server=on,wait=off",
             "-kernel", os.environ["VM_KERNEL"], "-initrd", os.environ["VM_INITRD"],
             "-append", os.environ["VM_CMDLINE"], "-drive", image,
             "-drive", f"file={self.tar},if=virtio,format=raw,readonly=on",
             "-nic", "user,model=virtio-net-pci"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        threading.Thread(target=self.read, args=(self.process.stdout,), daemon=True).start()
        self.log_in()

    def read(self, stream):
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while chunk := stream.read1():
            text = decoder.decode(chunk).replace("\r", "")
            self.text += text
            self.log.write(text)
            self.log.flush()

    def waits_for(self, pattern, limit=PATIENCE):
        """The next place on the console, after the last that was waited for."""
        found = until(f"the console says {pattern!r}", lambda: re.search(pattern, self.text[self.at:]), limit)
        self.at += found.end()
        return found

    def log_in(self):
        self.waits_for(r"root@\S+:.*# ")
        # Nothing of the next lines is taken for the answer of a command.
        self.types("stty -echo; PS1=; dmesg --console-off; bind 'set enable-bracketed-paste off'")

    def types(self, line):
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def runs(self, line):
        """Runs a command, which has to succeed, and returns what it printed."""
        self.number += 1
        begin = self.at
        self.types(f"{line}; echo \"end-{self.number}-$?-\"")
        code = self.waits_for(rf"end-{self.number}-(\d+)-\n").group(1)
        said = self.text[begin:self.at]
        if code != "0":
            raise Failed(f"{line}: exit code {code}: {said}")
        return said

    def presses_power_key(self):
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.connect(str(self.folder / "monitor"))
            monitor.sendall(b"system_powerdown\n")
            time.sleep(1)

    def ends(self):
        until("the machine is off", lambda: self.process.poll() is not None)

    def stop(self):
        self.process.kill()


def in_service(plane, machine):
    """The boot is over, zedkube is there, and has given the node back."""
    machine.runs("for i in $(seq 200); do systemctl is-active --quiet ebb-hold && break; sleep 1; done; test $i != 200")
    report = "/run/zedkube/NodeDrainReport/global.json"
    machine.runs(f"for i in $(seq 100); do grep -q '\"Member\":\"yes\"' {report} && break; sleep 1; done; ebb status; test $i != 100")
    until("the node is given back", lambda: not plane.is_cordoned())


def run(test, more_files=()):
    """Runs test(plane, machine) with a machine that is a k3s agent by its files; returns the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        plane = Plane(folder)
        files = {
            **plane.kubelet(folder),
            "/etc/systemd/network/10-e.network": (NETWORK, 0o644),
            **dict(more_files),
        }
        machine = None
        try:
            machine = Machine(folder, files)
            machine.runs("tar -C / --no-same-owner -xf /dev/vdb && systemctl daemon-reload")
            machine.runs("systemctl enable --quiet --now systemd-networkd")
            test(plane, machine)
        except Failed as failed:
            print(failed)
            if machine:
                print("".join(machine.text[-6000:]))
            return 1
        finally:
            if machine:
                machine.stop()
            plane.stop()
    return 0
