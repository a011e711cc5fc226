"""The life cycle of workloads through a client that shares nothing with the runner but proto/ (W-1510, T-01).

    client.py ADDRESS PROTO_DIRECTORY

Generates its stubs from the .proto files when it starts. Prints one line a check and ends with 1 at the first that
fails. The runner must work on a cluster that has the image BUSYBOX.
"""

import io
import queue
import sys
import tarfile
import tempfile
import time
import uuid
from importlib import import_module
from importlib.resources import files

import grpc
from grpc_tools import protoc

BUSYBOX = "docker.io/library/busybox:1.36"
CALL = 20  # seconds that one call may take
LIMIT = 60  # seconds until a condition must hold
IDLE = "trap 'exit 0' TERM; while true; do sleep 1; done"


def stubs(directory):
    """The modules of messages and of services, fresh from the protocol's text."""
    name = "agynio/api/runner/v1/runner"
    module = name.replace("/", ".")
    known = str(files("grpc_tools") / "_proto")
    with tempfile.TemporaryDirectory() as out:
        args = [f"-I{directory}", f"-I{known}", f"--python_out={out}", f"--grpc_python_out={out}", f"{name}.proto"]
        if protoc.main(["protoc", *args]) != 0:
            sys.exit(f"FAILED stubs of {directory}/{name}.proto")
        sys.path.insert(0, out)
        return import_module(f"{module}_pb2"), import_module(f"{module}_pb2_grpc")


def check(name, holds, detail=""):
    if not holds:
        print(f"FAILED {name}: {detail}", flush=True)
        sys.exit(1)
    print(f"ok {name}", flush=True)


def refused(name, code, call, message=None):
    try:
        answer = call()
    except grpc.RpcError as error:
        right = error.code() == code and message in (None, error.details())
        check(name, right, f"{error.code()}: {error.details()}")
    else:
        check(name, False, f"answered {answer!r}")


def until(name, condition, limit=LIMIT):
    """Wait for a condition that answers a pair: whether it holds, and what was seen."""
    end = time.monotonic() + limit
    while True:
        holds, seen = condition()
        if holds or time.monotonic() > end:
            check(name, holds, f"not within {limit} s; last seen: {seen}")
            return seen
        time.sleep(0.2)


pb, services = stubs(sys.argv[2])
channel = grpc.insecure_channel(sys.argv[1], options=[("grpc.enable_http_proxy", 0)])
runner = services.RunnerServiceStub(channel)


def shell(script, **fields):
    return pb.ContainerSpec(image=BUSYBOX, entrypoint="/bin/sh", cmd=["-c", script], **fields)


def start(name, request):
    answer = runner.StartWorkload(request, timeout=CALL)
    check(f"start {name}", answer.id == request.workload_id and answer.containers.main, answer)
    return answer


def inspect(workload):
    return runner.InspectWorkload(pb.InspectWorkloadRequest(workload_id=workload), timeout=CALL)


def gone(name, workload):
    def condition():
        try:
            return False, inspect(workload)
        except grpc.RpcError as error:
            return error.code() == grpc.StatusCode.NOT_FOUND, error.code()

    until(name, condition, 30)


def log(workload, container="main", **fields):
    request = pb.StreamWorkloadLogsRequest(workload_id=workload, container_name=container, **fields)
    return runner.StreamWorkloadLogs(request, timeout=LIMIT)


def text(stream):
    return b"".join(part.chunk.data for part in stream).decode()


class Execution:
    """One call of Exec: what is put goes in, until `close`."""

    def __init__(self, target, options=None, **command):
        self.requests = queue.Queue()
        begin = pb.ExecStartRequest(target_id=target, options=options, **command)
        self.requests.put(pb.ExecRequest(start=begin))
        self.events = runner.Exec(iter(self.requests.get, None), timeout=LIMIT)
        self.out = b""

    def put(self, data, eof=False):
        self.requests.put(pb.ExecRequest(stdin=pb.ExecStdin(data=data, eof=eof)))

    def started(self):
        event = next(self.events)
        check("exec sends started first", event.WhichOneof("event") == "started" and event.started.execution_id, event)
        return event.started.execution_id

    def end(self):
        """The last event: exit or error."""
        event = None
        for event in self.events:
            if event.WhichOneof("event") == "stdout":
                self.out += event.stdout.data
        self.requests.put(None)
        return event


def whole_life():
    workload, claim = str(uuid.uuid4()), f"home-{uuid.uuid4().hex[:8]}"
    key = f"key-{claim}"
    script = f'echo "greeting=$GREETING cwd=$(pwd)"; echo second; echo third; touch /data/mine; {IDLE}'
    request = pb.StartWorkloadRequest(
        workload_id=workload,
        main=shell(
            script,
            env=[pb.EnvVar(name="GREETING", value="hello")],
            working_dir="/tmp",
            mounts=[pb.VolumeMount(volume="data", mount_path="/data")],
        ),
        sidecars=[shell(IDLE, name="helper")],
        volumes=[
            pb.VolumeSpec(
                name="data",
                kind=pb.VOLUME_KIND_NAMED,
                persistent_name=claim,
                size="16Mi",
                labels={"volume_key": f"volume-{claim}"},
            )
        ],
        labels={"workload_key": key},
        additional_properties={"label.team": "blue"},
    )
    answer = start("with sidecar, volume and labels", request)
    sidecar = answer.containers.sidecars[0]
    check("the sidecar has name and id", sidecar.name == "helper" and sidecar.id, sidecar)

    def all_run():
        state = inspect(workload)
        return state.state_running and all(c.status == pb.CONTAINER_STATUS_RUNNING for c in state.containers), state

    state = until("inspect shows all running", all_run)
    check("inspect has id, name, image", state.id == workload and state.name and state.image, state)
    check("inspect has the image as asked", state.config_image == BUSYBOX, state)
    check("inspect names main by default", state.containers[0].name == "main", state)
    check("inspect has the label", state.config_labels["team"] == "blue", state)
    check("inspect has the mount", [m.destination for m in state.mounts] == ["/data"], state)

    labels = runner.GetWorkloadLabels(pb.GetWorkloadLabelsRequest(workload_id=workload), timeout=CALL).labels
    check("labels by additional_properties arrive", labels["team"] == "blue" and labels["workload_key"] == key, labels)
    find = pb.FindWorkloadsByLabelsRequest(labels={"team": "blue", "workload_key": key}, all=True)
    found = runner.FindWorkloadsByLabels(find, timeout=CALL)
    check("found by labels", list(found.target_ids) == [workload], found)
    listed = runner.ListWorkloads(pb.ListWorkloadsRequest(), timeout=CALL).workloads
    mine = [w.instance_id for w in listed if w.workload_key == key]
    check("listed with its key", mine == [answer.containers.main], listed)
    users = runner.ListWorkloadsByVolume(pb.ListWorkloadsByVolumeRequest(volume_name=claim), timeout=CALL)
    check("found by volume", list(users.target_ids) == [workload], users)
    check("the volume is listed with its key", volumes().get(claim) == f"volume-{claim}", volumes())
    runner.TouchWorkload(pb.TouchWorkloadRequest(workload_id=workload), timeout=CALL)
    check("touch", True)

    whole = text(log(workload))
    check("the log has environment and working directory", "greeting=hello cwd=/tmp\n" in whole, whole)
    tail = text(log(workload, tail_lines=2))
    check("the log's tail has the last lines", tail == "second\nthird\n", tail)
    execs(workload, answer.containers.main)
    archive(workload, answer.containers.main)

    removal = pb.RemoveWorkloadRequest(workload_id=workload, force=True, remove_volumes=True)
    runner.RemoveWorkload(removal, timeout=CALL)
    gone("removed by force", workload)
    until("the claim is gone", lambda: (claim not in volumes(), volumes()))
    for time_of in ("missing", "missing, again"):
        runner.RemoveVolume(pb.RemoveVolumeRequest(volume_name=claim, force=True), timeout=CALL)
        check(f"remove a volume that is {time_of}", True)


def volumes():
    listed = runner.ListVolumes(pb.ListVolumesRequest(), timeout=CALL).volumes
    return {volume.instance_id: volume.volume_key for volume in listed}


def execs(workload, pod):
    def run(name, target, wanted, code=0, options=None, **command):
        call = Execution(target, options, **command)
        call.started()
        last = call.end()
        seen = (call.out.decode(), last.exit.exit_code, last.exit.reason)
        right = seen == (wanted, code, pb.EXEC_EXIT_REASON_COMPLETED)
        check(f"exec {name}", right, f"{call.out!r}, {last}")

    run("argv", pod, "a b\n", command_argv=["echo", "a b"])
    run("shell", pod, "2\n", command_shell="echo $((1 + 1))")
    run("by workload id", workload, "x\n", command_argv=["echo", "x"])
    run("in the sidecar", f"{pod}:helper", "y\n", command_argv=["echo", "y"])
    run("exit code", pod, "", 42, command_shell="exit 42")
    options = pb.ExecOptions(workdir="/data", env=[pb.EnvVar(name="COLOUR", value="green")])
    run("workdir and env", pod, "/data green mine\n", options=options, command_shell='echo "$(pwd) $COLOUR $(ls)"')

    call = Execution(pod, command_argv=["cat"])
    call.started()
    call.put(b"one ")
    call.put(b"two", eof=True)
    last = call.end()
    check("exec reads stdin to its end", (call.out, last.exit.exit_code) == (b"one two", 0), f"{call.out!r}, {last}")

    call = Execution(pod, command_argv=["sleep", "600"])
    execution = call.started()
    cancel = pb.CancelExecutionRequest(execution_id=execution)
    check("cancel", runner.CancelExecution(cancel, timeout=CALL).cancelled)
    last = call.end()
    check("exec says that it was cancelled", last.exit.reason == pb.EXEC_EXIT_REASON_CANCELLED, last)
    check("cancel once more", not runner.CancelExecution(cancel, timeout=CALL).cancelled)

    last = Execution(f"workload-{uuid.uuid4()}", command_argv=["true"]).end()
    check("exec in a missing target", last.error.code == "exec_start_failed", last)


def archive(workload, pod):
    made = Execution(pod, command_argv=["mkdir", "/tmp/e2e"])
    check("make a directory", made.end().exit.reason == pb.EXEC_EXIT_REASON_COMPLETED)
    content = b"from an archive\n"
    payload = io.BytesIO()
    with tarfile.open(fileobj=payload, mode="w") as tar:
        member = tarfile.TarInfo("hello.txt")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    request = pb.PutArchiveRequest(workload_id=workload, path="/tmp/e2e", tar_payload=payload.getvalue())
    runner.PutArchive(request, timeout=CALL)
    read = Execution(pod, command_argv=["cat", "/tmp/e2e/hello.txt"])
    read.end()
    check("the file of the archive is there", read.out == content, read.out)


def events_tell(stream, pod):
    """Within the limit of the call an event names the pod, and no error comes before."""
    for event in stream:
        if event.WhichOneof("event") == "error":
            check("events without an error", False, event)
        if pod in event.data.json:
            break
    else:
        event = None
    check("an event names the pod", event is not None)
    stream.cancel()


def follow_and_stop():
    workload = str(uuid.uuid4())
    script = "n=0; while true; do n=$((n + 1)); echo tick $n; sleep 1; done"
    events = runner.StreamEvents(pb.StreamEventsRequest(), timeout=LIMIT)
    start("without volumes", pb.StartWorkloadRequest(workload_id=workload, main=shell(script)))
    events_tell(events, f"workload-{workload}")
    stream = log(workload, follow=True)
    seen = b""
    for part in stream:
        seen += part.chunk.data
        if b"tick 3\n" in seen:
            break
    check("a followed log starts while the container does", seen.startswith(b"tick 1\ntick 2\n"), seen)
    stream.cancel()
    state = inspect(workload)
    check("inspect has no mounts without volumes", state.state_running and not state.mounts, state)
    runner.StopWorkload(pb.StopWorkloadRequest(workload_id=workload, timeout_sec=1), timeout=CALL)
    gone("stopped within 30 s", workload)

    workload = str(uuid.uuid4())
    start("that ends", pb.StartWorkloadRequest(workload_id=workload, main=shell("echo once")))
    whole = text(log(workload, follow=True))
    check("a followed log ends with the container", whole == "once\n", whole)
    runner.RemoveWorkload(pb.RemoveWorkloadRequest(workload_id=workload, force=True), timeout=CALL)
    gone("removed after its end", workload)


def refusals():
    no_image = pb.StartWorkloadRequest(main=pb.ContainerSpec(cmd=["true"]))
    refused(
        "no image",
        grpc.StatusCode.INVALID_ARGUMENT,
        lambda: runner.StartWorkload(no_image, timeout=CALL),
        "main_container_image_required",
    )
    missing = "missing-workload"
    for name, call in {
        "inspect": lambda: inspect(missing),
        "labels": lambda: runner.GetWorkloadLabels(pb.GetWorkloadLabelsRequest(workload_id=missing), timeout=CALL),
        "touch": lambda: runner.TouchWorkload(pb.TouchWorkloadRequest(workload_id=missing), timeout=CALL),
        "stop": lambda: runner.StopWorkload(pb.StopWorkloadRequest(workload_id=missing), timeout=CALL),
        "remove": lambda: runner.RemoveWorkload(pb.RemoveWorkloadRequest(workload_id=missing), timeout=CALL),
        "log": lambda: text(log(missing)),
    }.items():
        refused(f"{name} of an unknown id", grpc.StatusCode.NOT_FOUND, call)


ready = runner.Ready(pb.ReadyRequest(), timeout=CALL)
check("ready", ready.status == "ok", ready)
refusals()
whole_life()
follow_and_stop()
print("all checks passed", flush=True)
