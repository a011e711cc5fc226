"""Pack a directory as a one-layer image: image.py OUT.tar NAME:TAG ROOTFS CMD...

Writes a docker-archive (manifest.json, config, layer.tar) that `ctr images import`, `docker load` and `skopeo` accept. The JSON object
in IMAGE_CONFIG, if any, is added to the image's config: User, Entrypoint, ExposedPorts. The same files give the same bytes.
"""

import hashlib
import io
import json
import os
import platform
import sys
import tarfile

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def as_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = "root"
    return entry


def main(out: str, name: str, rootfs: str, *command: str) -> None:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(rootfs, arcname=".", filter=as_root)
    settings = {"Cmd": command, "Env": [PATH]} | json.loads(os.environ.get("IMAGE_CONFIG", "{}"))
    machine = platform.machine()
    config = json.dumps({
        "architecture": ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "config": settings,
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


main(*sys.argv[1:])
