"""S3 as moto speaks it, on loopback in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

START_S = 60


@dataclass
class Bucket:
    client: Any
    name: str

    def put(self, key: str, body: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=body)


@dataclass
class S3Server:
    port: int

    @property
    def environ(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "canary-id",
            "AWS_SECRET_ACCESS_KEY": "canary-secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def bucket(self, name: str) -> Bucket:
        import boto3

        client = boto3.client(
            "s3",
            endpoint_url=self.environ["AWS_ENDPOINT_URL"],
            aws_access_key_id="canary-id",
            aws_secret_access_key="canary-secret",
            region_name="us-east-1",
        )
        client.create_bucket(Bucket=name)
        return Bucket(client, name)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ))
    try:
        _wait_for(process, port)
        yield S3Server(port)
    finally:
        process.kill()
        process.wait()


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, "moto ended"
            assert time.monotonic() < end, "moto did not start"
            time.sleep(0.1)
        else:
            return
