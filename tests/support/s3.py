"""An emulator of S3 in a separate process (moto); it can be killed, stopped for a while, and started again on its port."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from typing import Any

import boto3  # type: ignore[import-untyped]
import httpx
from botocore.config import Config  # type: ignore[import-untyped]

from tests.support.process import Child

BUCKET = "files"
REGION = "eu-central-1"
KEY, SECRET = "test-access-key", "test-secret-key-of-the-emulator"


class S3:
    """An emulator with one empty bucket. It runs when the constructor returns."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = self._connect("s3")
        self.start()

    def _connect(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.url,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name=REGION,
            config=Config(retries={"max_attempts": 0}),
        )

    def start(self) -> None:
        """Start it, with an empty bucket."""
        program = "import sys; from moto.server import main; main(sys.argv[1:])"
        self._child = Child([sys.executable, "-c", program, "-H", "127.0.0.1", "-p", str(self.port)])
        self._child.wait_for_line("Running on")
        self.client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})

    def kill(self) -> None:
        """End it immediately, with all objects."""
        self._child.kill()

    def hang(self) -> None:
        """Stop it: connections stay open without responses."""
        os.kill(self._child.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self._child.process.pid, signal.SIGCONT)

    def make_conf(self, prefix: str = "gate", **keys: Any) -> str:
        """The section `media` of conf, as one line of YAML."""
        options = {"region": REGION, "access_key_id": KEY, "secret_access_key": SECRET}
        section = {"store": f"s3://{BUCKET}/{prefix}", "endpoint": self.url, "options": options, **keys}
        return f"media: {json.dumps(section)}\n"

    def list_keys(self, prefix: str = "") -> list[str]:
        """The keys of all objects below a prefix."""
        return [entry["Key"] for entry in self.client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])]

    def count_open_uploads(self) -> int:
        """The uploads in parts that were neither completed nor aborted."""
        return len(self.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []))

    def make_user(self, *actions: str) -> dict[str, str]:
        """Options of conf with the credentials of a user who may do `actions` only."""
        iam, name = self._connect("iam"), f"user-{len(actions)}"
        iam.create_user(UserName=name)
        policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": list(actions), "Resource": "*"}]}
        iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=json.dumps(policy))
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return {"region": REGION, "access_key_id": key["AccessKeyId"], "secret_access_key": key["SecretAccessKey"]}

    def check_rights(self, on: bool) -> None:
        """Check the rights of each request, or of none."""
        count = "0" if on else "inf"
        response = httpx.post(f"{self.url}/moto-api/reset-auth", content=count, trust_env=False)
        assert response.status_code == 200, response.text
