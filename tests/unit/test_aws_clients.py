"""The clients of an execution environment."""

import os
from pathlib import Path

import pytest

from oncely.aws.clients import AwsClients


def test_client_is_made_without_listing_all_services(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK lists more than 400 folders to find the services, which slows a cold start."""
    listed: list[Path] = []
    list_folder = os.listdir

    def record(folder: str) -> list[str]:
        listed.append(Path(folder))
        return list_folder(folder)

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "given")
    monkeypatch.setattr(os, "listdir", record)

    assert AwsClients().sqs.meta.service_model.service_name == "sqs"
    assert {folder.name for folder in listed} <= {"sqs"}
