"""S3 as moto speaks it, on loopback in a process of its own."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
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
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with tempfile.NamedTemporaryFile() as log:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, env=dict(os.environ))
        try:
            yield S3Server(_wait_for_port(process, Path(log.name)))
        finally:
            process.kill()
            process.wait()


def _wait_for_port(process: subprocess.Popen[bytes], log: Path) -> int:
    """Return the port that the kernel chose, as the server says once it listens."""
    end = time.monotonic() + START_S
    while not (found := re.search(r"Running on http://127.0.0.1:(\d+)", log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, "moto did not start"
        time.sleep(0.1)
    return int(found[1])
