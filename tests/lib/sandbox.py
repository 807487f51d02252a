"""Live sandboxes over HTTP, for tests."""
import time

PATIENCE_S = 30


def make(serving, **fields):
    answer = serving.post("/v1/sandboxes", fields)
    assert answer.status == 201, answer
    return Sandbox(serving, answer.json)


class Sandbox:
    def __init__(self, serving, view):
        self.serving, self.view, self.id = serving, view, view["id"]
        self.path = f"/v1/sandboxes/{self.id}"
        self.context = view["contexts"][0] if view["contexts"] else None

    def ask(self, method, below="", fields=None):
        return self.serving.request(method, self.path + below, fields)

    def run(self, code, **fields):
        answer = self.ask("POST", "/run", {"code": code, **fields})
        assert answer.status == 200, answer
        return answer.json

    def close(self):
        answer = self.ask("DELETE")
        assert answer.status == 204, answer


def error_of(answer, status, code):
    assert answer.status == status and answer.json["error"]["code"] == code, answer
    assert answer.json["error"]["message"]
    return answer.json["error"]


def until(is_so, seconds=PATIENCE_S):
    deadline = time.monotonic() + seconds
    while not (result := is_so()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return result
