"""With a sender, the stack publishes the events that prove what was sent."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from oncely.providers.ses import SES
from oncely_cdk.event_intake import transformer
from tests.infra.assembly import PROD, Assembly
from tests.infra.policies import permissions


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """A stage that names a configuration set of its own."""
    provider = {**PROD.provider_settings, "ses_configuration_set": "shop"}
    settings = PROD.model_copy(update={"provider_settings": provider})
    return Assembly.from_folder(tmp_path_factory.mktemp("named"), settings)


def configuration_sets_of_workers(assembly: Assembly) -> Mapping[str, Any]:
    return {
        name: one.properties["Environment"]["Variables"]["SES_CONFIGURATION_SET"]
        for name, one in assembly.functions.items()
        if "SES_CONFIGURATION_SET" in one.variables
    }


def test_configuration_set_publishes_to_the_default_bus(prod: Assembly) -> None:
    (created,) = prod.properties("AWS::SES::ConfigurationSet").values()
    (events,) = prod.properties("AWS::SES::ConfigurationSetEventDestination").values()
    destination = events["EventDestination"]

    assert created == {"Name": "Oncely-prod"}
    assert events["ConfigurationSetName"] == "Oncely-prod"
    assert destination["Enabled"]
    assert destination["MatchingEventTypes"] == ["SEND", "BOUNCE", "COMPLAINT"]
    assert "event-bus/default" in str(destination["EventBridgeDestination"])
    told = configuration_sets_of_workers(prod).keys()
    assert {"MailWorker/Worker", "Reconciler/Resolve", "EventIntake/Receive"} <= told


def test_rules_take_only_events_of_the_set_and_pass_on_no_address(prod: Assembly) -> None:
    rules = prod.properties("AWS::Events::Rule").values()
    patterns = [one["EventPattern"] for one in rules]

    assert sorted(type_ for one in patterns for type_ in one["detail-type"]) == [
        "Email Bounced",
        "Email Complaint Received",
        "Email Sent",
    ]
    for one in patterns:
        assert one["source"] == ["aws.ses"]
        (only,) = one["detail"]["mail"]["tags"]["ses:configuration-set"]
        assert "ConfigurationSet" in only["Ref"]
    for one in SES.event_rules(SES.settings_type(sender_address="a@b", configuration_set="c")):
        paths = str(transformer(one)["input_paths_map"])
        assert "destination" not in paths
        assert "ecipient" not in paths


def test_worker_may_use_only_its_configuration_set(prod: Assembly, named: Assembly) -> None:
    for assembly, expected in ((prod, "ConfigurationSet"), (named, "configuration-set/shop")):
        (used,) = {
            str(one.resource)
            for one in permissions(assembly)
            if one.action == "ses:SendEmail" and "configuration-set" in str(one.resource)
        }
        assert expected in used
        assert not used.endswith("*")


def test_stage_may_name_its_own_configuration_set(named: Assembly) -> None:
    assert named.of_type("AWS::SES::ConfigurationSet") == {}
    assert set(configuration_sets_of_workers(named).values()) == {"shop"}
    assert named.properties("AWS::Events::Rule")


def test_without_sender_nothing_is_published(tmp_path: Path) -> None:
    silent = PROD.model_copy(update={"provider_settings": {}})
    assembly = Assembly.from_folder(tmp_path, silent)
    types = {one["Type"] for one in assembly.resources.values()}
    assert types.isdisjoint({"AWS::SES::ConfigurationSet", "AWS::Events::Rule"})
    assert "EventIntake/Receive" not in assembly.functions
