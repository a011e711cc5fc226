"""Pack a directory as a one-layer image: image.py [--entrypoint PROGRAM] [--user USER] OUT.tar NAME:TAG ROOTFS CMD...

Writes a docker-archive (manifest.json, config, layer.tar) that `ctr images import` accepts.
"""

import argparse
import hashlib
import io
import json
import os
import platform
import tarfile

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def as_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = "root"
    return entry


def main(out: str, name: str, rootfs: str, command: list[str], entrypoint: str | None, user: str | None) -> None:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(rootfs, arcname=".", filter=as_root)
    process = {"Cmd": command, "Env": [PATH]}
    if entrypoint:
        process["Entrypoint"] = [entrypoint]
    if user:
        process["User"] = user
    machine = platform.machine()
    config = json.dumps({
        "architecture": ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "config": process,
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer.getvalue()).hexdigest()]},
    }).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    # under another name first: a half-written archive must never be taken for a cached one
    with tarfile.open(out + ".part", "w") as tar:
        for path, data in ((config_name, config), ("layer.tar", layer.getvalue()), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    os.rename(out + ".part", out)


parser = argparse.ArgumentParser()
parser.add_argument("--entrypoint")
parser.add_argument("--user")
parser.add_argument("out")
parser.add_argument("name")
parser.add_argument("rootfs")
parser.add_argument("command", nargs=argparse.REMAINDER)
main(**vars(parser.parse_args()))
