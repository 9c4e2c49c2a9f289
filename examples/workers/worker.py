"""A worker with only Python's standard library: python worker.py [SERVICE_URL] [API_KEY]

It claims jobs of the tasks below from a service, renews their leases while it works, and reports
their outcomes. The return value of a function is the job's result; an exception fails the attempt.
"""

import json
import signal
import socket
import sys
import threading
import time
import urllib.request

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
KEY = sys.argv[2] if len(sys.argv) > 2 else None
LEASE = 30  # seconds without a renewal after which another worker gets the job
stopping = threading.Event()


def export(objectID, format="csv"):  # noqa: N803  as the caller names it
    return {"file": f"{objectID}.{format}"}


TASKS = {"export": export}


def call(method, **params):
    """The result of a method of the service; raises RuntimeError with the service's error."""
    body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": 1}).encode()
    headers = {"Content-Type": "application/json"} | (
        {"Authorization": f"Bearer {KEY}"} if KEY else {}
    )
    request = urllib.request.Request(f"{URL}/rpc", body, headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        answer = json.load(response)
    if "error" in answer:
        raise RuntimeError(answer["error"]["message"])
    return answer["result"]


def run(job):
    params = job["params"]
    attempt, args = params.pop("attempt"), params.pop("args", [])
    done = threading.Event()
    threading.Thread(target=keep_lease, args=(job, done), daemon=True).start()
    try:
        outcome = {"result": TASKS[job["method"]](*args, **params)}
    except Exception as error:  # noqa: BLE001  a failed attempt, whatever it was
        outcome = {"error": {"code": 1, "message": f"{type(error).__name__}: {error}"}}
    done.set()
    # The service accepts a report only with the job's current token, so repeating is harmless.
    call("job.settle", id=job["id"], token=job["token"], attempt=attempt, **outcome)


def keep_lease(job, done):
    while not done.wait(LEASE / 3):
        call("job.renew", id=job["id"], token=job["token"], lease=LEASE)


def main():
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    claim = {"worker": socket.gethostname(), "tasks": list(TASKS), "lease": LEASE, "wait": 2}
    while not stopping.is_set():
        try:
            for job in call("job.claim", **claim)["jobs"]:
                run(job)
        except (OSError, RuntimeError) as error:
            print(error, file=sys.stderr)
            time.sleep(1)


if __name__ == "__main__":
    main()
