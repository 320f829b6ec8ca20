"""First setup: gives a new job table its identity, and refuses to abandon another one."""

from collections.abc import Mapping
from typing import Any, Final

from aws_cdk import CustomResource, Stack, Token
from constructs import Construct

from oncely.operate.own_tables import JOBS
from oncely.operate.set_up_table import DEPLOYMENT
from oncely_cdk import job_items
from oncely_cdk.job_function import GrantedFunction, OncelyFunction
from oncely_cdk.shared_resources import SharedResources
from oncely_cdk.stages import OncelySettings, StageIdentity

_ARCHIVE: Final = "archive_bucket"
# An attribute of the response of oncely/handlers/set_up_table.py, which needs the layer to import.
_DEPLOYMENT_ATTRIBUTE: Final = "Deployment"


class FirstSetupConstruct(Construct):
    """A custom resource that sets up the table of a new stack.

    An update can change the table, for example to an empty one because a setting was removed. The
    custom resource then fails, and the deployment is rolled back before it updates a function.
    """

    def __init__(self, scope: Construct, id_: str, *, shared: SharedResources) -> None:
        super().__init__(scope, id_)
        tables = shared.tables
        self.function = OncelyFunction(
            self,
            "SetUp",
            entry="set_up_table",
            description="sets up a new job table, and checks each deployment",
            layers=shared.layers,
            environment=tables.env_vars(),
        )
        jobs = [tables.arn(JOBS)]
        self.function.grant("dynamodb:Scan", "dynamodb:DescribeTable", resources=jobs)
        item = [job_items.IDENTITY]
        shared.grant_jobs(self.function, "GetItem", "PutItem", leading_keys=item)
        stack_id = Stack.of(self).stack_id
        self.function.grant("cloudformation:DescribeStacks", resources=[stack_id])
        names = {_ARCHIVE: shared.archive.name} | {
            _table_key(name): table.table_name for name, table in tables.by_name.items()
        }
        created = {_table_key(name) for name in tables.created}
        if shared.archive.is_created:
            created.add(_ARCHIVE)
        properties: dict[str, Any] = {
            "Names": names,
            "JobTypes": list(shared.required.job_types),
            "RetiredJobTypes": sorted(shared.stage.retired_job_types),
        }
        if (identity := shared.stage.identity) is not None:
            expected = _expected_names(identity)
            _refuse_change(shared.stage, identity, expected, names, created)
            properties["Expected"] = {DEPLOYMENT: identity.deployment, **expected}
        self.identity = CustomResource(
            self,
            "Identity",
            resource_type="Custom::OncelyIdentity",
            service_token=self.function.function.function_arn,
            properties=properties,
        )
        # It needs its permissions, and the table's TTL and recovery, before it runs.
        self.identity.node.add_dependency(self.function.role, tables)
        self._names, self._created = names, created

    def run_before(self, function: GrantedFunction) -> None:
        """Let the update of a function wait for the check."""
        resource = function.function.node.default_child
        # Not its role, which the policy of a table's key may name: the check needs the table.
        if function is not self.function and resource is not None:
            resource.node.add_dependency(self.identity)

    def output(self) -> str:
        """What the first deployment writes to the stage's file, as JSON."""
        tables = {
            name.removeprefix("tables."): value
            for name, value in self._names.items()
            if name != _ARCHIVE
        }
        identity = {
            DEPLOYMENT: self.identity.get_att_string(_DEPLOYMENT_ATTRIBUTE),
            _ARCHIVE: self._names[_ARCHIVE],
            "created": sorted(self._created),
            "tables": tables,
        }
        return Stack.of(self).to_json_string(identity)


def _table_key(name: str) -> str:
    return f"tables.{name}"


def _expected_names(identity: StageIdentity) -> dict[str, str]:
    tables = {_table_key(name): value for name, value in identity.tables.items()}
    archive = {_ARCHIVE: identity.archive_bucket} if identity.archive_bucket else {}
    return {**archive, **tables}


def _refuse_change(
    stage: OncelySettings,
    identity: StageIdentity,
    expected: Mapping[str, str],
    names: Mapping[str, str],
    created: set[str],
) -> None:
    """Refuse settings that abandon data. The names of created resources are not known yet."""
    for key in sorted(expected.keys() & names.keys()):
        known, name = expected[key], names[key]
        if key in created:
            fault = key not in identity.created and "a new, empty one"
        else:
            fault = not Token.is_unresolved(name) and name != known and name
        if fault:
            setting = "existing_archive_bucket" if key == _ARCHIVE else f"existing_{key}"
            raise stage.error(
                f"identity.{key} would change from {known} to {fault}, which abandons its "
                f'data: set {setting} = "{known}", or change [identity] if the data has moved'
            )
