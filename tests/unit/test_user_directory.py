"""The current groups of a user, from Cognito."""

from collections.abc import Iterator

import boto3
import pytest
from botocore.stub import Stubber

from oncely.core.errors import NotConfiguredError
from oncely.operate.page_access import CognitoUserDirectory

ADA = {"UserPoolId": "pool", "Username": "ada"}


@pytest.fixture
def cognito() -> Iterator[tuple[CognitoUserDirectory, Stubber]]:
    session = boto3.Session("none", "none", region_name="eu-central-1")
    client = session.client("cognito-idp")
    with Stubber(client) as stubber:
        yield CognitoUserDirectory(client, "pool"), stubber
        stubber.assert_no_pending_responses()


def test_user_has_groups_of_every_page(cognito: tuple[CognitoUserDirectory, Stubber]) -> None:
    directory, stubber = cognito
    stubber.add_response("admin_get_user", {"Username": "ada", "Enabled": True}, ADA)
    first = {"Groups": [{"GroupName": "support"}], "NextToken": "more"}
    stubber.add_response("admin_list_groups_for_user", first, ADA)
    second = {"Groups": [{"GroupName": "operator"}]}
    stubber.add_response("admin_list_groups_for_user", second, {**ADA, "NextToken": "more"})

    assert directory.groups("ada") == {"support", "operator"}


def test_disabled_user_has_no_groups(cognito: tuple[CognitoUserDirectory, Stubber]) -> None:
    directory, stubber = cognito
    stubber.add_response("admin_get_user", {"Username": "ada", "Enabled": False}, ADA)

    assert directory.groups("ada") == frozenset()


def test_deleted_user_has_no_groups(cognito: tuple[CognitoUserDirectory, Stubber]) -> None:
    directory, stubber = cognito
    stubber.add_client_error("admin_get_user", "UserNotFoundException")

    assert directory.groups("ada") == frozenset()


def test_unreadable_pool_is_an_error(cognito: tuple[CognitoUserDirectory, Stubber]) -> None:
    directory, stubber = cognito
    stubber.add_client_error("admin_get_user", "AccessDeniedException")

    with pytest.raises(NotConfiguredError, match="may read its users"):
        directory.groups("ada")
