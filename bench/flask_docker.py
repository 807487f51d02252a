"""The baseline of bench/server: code runs in a fresh container for each request, as tutorials show it with Flask and docker-py.

    DOCKER_HOST=unix://… python flask_docker.py PORT IMAGE

It asks of docker what the row `docker run` of the other benchmarks asks, and no more is checked than tutorials do.
"""

import logging
import sys

import docker
from flask import Flask, jsonify, request

app = Flask(__name__)
client = docker.from_env(timeout=300)


@app.get("/health")
def health():
    return jsonify(status="ok")


@app.post("/v1/run")
def run():
    try:
        output = client.containers.run(
            sys.argv[2],
            ["/usr/bin/python3", "-c", request.get_json()["code"]],
            remove=True,
            network_mode="none",
            read_only=True,
            tmpfs={"/tmp": ""},
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            mem_limit="512m",
            memswap_limit="512m",
            pids_limit=64,
        )
    except docker.errors.ContainerError as error:
        return jsonify(exit_code=error.exit_status, stdout="", stderr=error.stderr.decode(errors="replace"))
    return jsonify(exit_code=0, stdout=output.decode(errors="replace"), stderr="")


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line a request would be in the figure
    app.run("127.0.0.1", int(sys.argv[1]), threaded=True)
