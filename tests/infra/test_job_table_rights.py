"""Permissions on tables: by job type on the job table, by declaration on business tables.

MiniStack is not given `dynamodb:LeadingKeys`, so the policies are evaluated here.
"""

import json
import re
from dataclasses import replace

import pytest

from oncely.contracts.settings import pascal_case
from oncely.core.row_items import serialize_job
from oncely.core.store import NOT_INSERTABLE
from oncely.core.table_guard import IDENTITY_KEY
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely_cdk.job_items import ANY_JOB, WIDER_RIGHTS, new_row_attributes, window_attributes
from oncely_cdk.required_resources import RequiredResources
from tests.docs.pages import page
from tests.infra.assembly import Assembly
from tests.infra.policies import Permission, Request, is_allowed, permissions
from tests.support.in_memory_stack import InMemoryStack

REQUIRED = RequiredResources(SHIPPED_JOBS)
JOBS = "Tables/Jobs"
GATES = "Tables/Gates"
REFUND_REQUESTS = "Tables/RefundRequests"
# What reads or writes items. Their table is described, and its stream read, by other actions.
READS = {"GetItem", "BatchGetItem", "Query", "Scan", "PartiQLSelect"}
WRITES = {"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"}
WRITES |= {"PartiQLInsert", "PartiQLUpdate", "PartiQLDelete"}
ITEM_ACTIONS = {f"dynamodb:{name}" for name in READS | WRITES | {"ConditionCheckItem"}}
WORKERS = {f"{pascal_case(queue)}Worker/Worker": queue for queue in REQUIRED.queues}
PRODUCERS = {f"Policies/{pascal_case(queue)}Producer": queue for queue in REQUIRED.queues}
# Of AWS, for a managed policy, without spaces.
MAX_POLICY_CHARACTERS = 6144


@pytest.fixture(scope="module")
def granted(prod: Assembly) -> set[Permission]:
    return permissions(prod)


@pytest.fixture(scope="module")
def on_jobs(granted: set[Permission]) -> set[Permission]:
    return {
        one
        for one in granted
        if one.action in ITEM_ACTIONS and f"{one.resource}/".startswith(f"{JOBS}/")
    }


def test_rights_on_all_job_types_are_exactly_named_list(on_jobs: set[Permission]) -> None:
    unlimited = {one.role for one in on_jobs if ANY_JOB in (one.leading_keys or (ANY_JOB,))}

    assert unlimited == set(WIDER_RIGHTS)


@pytest.mark.parametrize("job_type", REQUIRED.job_types)
def test_find_reads_age_of_due_jobs_of_every_type(granted: set[Permission], job_type: str) -> None:
    """Without it, the alarm on the oldest unresolved job would see them too young."""
    assert is_allowed(
        granted, Request("Reconciler/Find", "dynamodb:GetItem", JOBS, (f"{job_type}:1",))
    )


def test_docs_print_named_list_with_its_reasons() -> None:
    rows = re.findall(
        r"^\| `([A-Za-z/]+)` \| (.+) \|$", page("docs/privacy-and-security.md").text, re.MULTILINE
    )

    assert dict(rows) == {name: f"{reason}" for name, reason in WIDER_RIGHTS.items()}


@pytest.mark.parametrize("role", [*WORKERS, *PRODUCERS])
def test_worker_and_producer_reach_only_own_job_types(on_jobs: set[Permission], role: str) -> None:
    own = REQUIRED.for_queue({**WORKERS, **PRODUCERS}[role]).job_types
    mine = {one for one in on_jobs if one.role == role}
    own_key = re.compile(rf"(unique:|alerts:\*:)?({'|'.join(map(re.escape, own))}):\*")

    assert mine
    # A request without a key meets every `ForAllValues` condition.
    assert not {one.action for one in mine} & {"dynamodb:Query", "dynamodb:Scan"}
    for one in mine:
        assert one.leading_keys
        is_identity = one.leading_keys == (IDENTITY_KEY,) and one.action == "dynamodb:GetItem"
        assert is_identity or all(map(own_key.fullmatch, one.leading_keys)), one


@pytest.mark.parametrize("role", PRODUCERS)
def test_producer_inserts_and_replaces_only_windows(on_jobs: set[Permission], role: str) -> None:
    writes = {one for one in on_jobs if one.role == role and one.action != "dynamodb:GetItem"}

    assert {one.action for one in writes} == {"dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate"}
    for one in writes:
        if one.action == "dynamodb:PartiQLUpdate":
            assert all(key.startswith("unique:") for key in one.leading_keys)


def test_only_functions_that_create_rows_may_put_one(on_jobs: set[Permission]) -> None:
    putting = {one.role for one in on_jobs if one.action == "dynamodb:PutItem"}

    assert putting == {
        *("DeadLetters/Receive", "FirstSetup/SetUp", "Reconciler/Resolve"),
        *WORKERS,  # for early messages of their own job types
    }


def test_only_first_setup_may_write_identity(granted: set[Permission]) -> None:
    roles = {one.role for one in granted}
    writers = {
        role
        for role in roles
        for name in WRITES
        if is_allowed(granted, Request(role, f"dynamodb:{name}", JOBS, (IDENTITY_KEY,)))
    }

    assert writers == {"FirstSetup/SetUp"}


def test_no_table_is_written_where_contracts_only_read_it(granted: set[Permission]) -> None:
    written = {
        (one.role, one.resource)
        for one in granted
        if one.action.removeprefix("dynamodb:") in WRITES and one.resource not in {JOBS, GATES}
    }
    all_types = ("Reconciler/Resolve", "AdminPage/Repair", "Policies/Operator")
    declared = {role: REQUIRED.for_queue(queue) for role, queue in WORKERS.items()}
    declared |= dict.fromkeys(all_types, REQUIRED)

    written_by_contracts = {
        (role, f"Tables/{pascal_case(table)}")
        for role, required in declared.items()
        for table in required.written_tables
    }
    erased = {("Policies/Eraser", f"Tables/{name}") for name in ("Records", "ImportEvents")}
    assert written == written_by_contracts | erased
    assert ("MailWorker/Worker", "Tables/Orders") not in written


def test_nothing_of_the_stack_may_write_refund_requests(granted: set[Permission]) -> None:
    """Whoever could write one could authorize a refund, of any amount."""
    actions = {(one.role, one.action) for one in granted if one.resource == REFUND_REQUESTS}

    readers = {"PaymentsWorker/Worker", "Reconciler/Resolve", "AdminPage/Repair"}
    assert readers <= {role for role, _ in actions}
    assert not {role for role, _ in actions} & PRODUCERS.keys()
    only_reading = READS | {"DescribeTable", "DescribeTimeToLive", "DescribeContinuousBackups"}
    assert {action.removeprefix("dynamodb:") for _, action in actions} <= only_reading


def test_only_eraser_deletes_versions_of_archived_objects(granted: set[Permission]) -> None:
    deleting = {
        (one.role, one.resource)
        for one in granted
        if re.fullmatch(r"s3:(Delete|\*|.*ObjectLock|PutBucketVersioning).*", one.action)
    }

    assert deleting == {
        ("Policies/Eraser", f"Archive/Bucket/{prefix}/*") for prefix in ("history", "rejects")
    }


def test_eraser_deletes_only_import_events(granted: set[Permission]) -> None:
    deleting = {
        (one.role, one.resource) for one in granted if one.action.startswith("dynamodb:Delete")
    }

    assert {one for one in deleting if one[0] == "Policies/Eraser"} == {
        ("Policies/Eraser", "Tables/ImportEvents")
    }


def test_workers_have_no_rights_on_archive(granted: set[Permission]) -> None:
    assert not {one for one in granted if one.role in WORKERS and "Archive" in one.resource}


ORDER = "payment.charge:order_1"
CONTACT = "sync.contact:hubspot:1:2"
FORGED = {
    "sync worker writes a ready payment": ("SyncWorker/Worker", "UpdateItem", ORDER),
    "sync worker puts a ready payment": ("SyncWorker/Worker", "PutItem", ORDER),
    "sync worker inserts a ready payment": ("SyncWorker/Worker", "PartiQLInsert", ORDER),
    "sync worker reads a payment": ("SyncWorker/Worker", "GetItem", ORDER),
    "mail worker ends a payment": ("MailWorker/Worker", "UpdateItem", ORDER),
    "sync worker deletes a payment": ("SyncWorker/Worker", "DeleteItem", ORDER),
    "payments worker deletes its proof": ("PaymentsWorker/Worker", "DeleteItem", ORDER),
    "worker moves the identity": ("PaymentsWorker/Worker", "UpdateItem", IDENTITY_KEY),
    "worker takes a sweep lease": ("SyncWorker/Worker", "UpdateItem", "sweep:0"),
    "worker silences other alerts": ("SyncWorker/Worker", "UpdateItem", f"alerts:review:{ORDER}"),
    "reconciler moves the identity": ("Reconciler/Resolve", "PutItem", IDENTITY_KEY),
    "producer replaces a finished row": ("Policies/PaymentsProducer", "PutItem", ORDER),
    "producer updates a finished row": ("Policies/PaymentsProducer", "UpdateItem", ORDER),
    "producer updates by PartiQL": ("Policies/PaymentsProducer", "PartiQLUpdate", ORDER),
    "producer deletes a row": ("Policies/PaymentsProducer", "DeleteItem", ORDER),
    "producer deletes by PartiQL": ("Policies/PaymentsProducer", "PartiQLDelete", ORDER),
    "producer inserts another type": ("Policies/SyncProducer", "PartiQLInsert", ORDER),
    "producer inserts an identity": ("Policies/SyncProducer", "PartiQLInsert", IDENTITY_KEY),
    "producer takes another window": ("Policies/SyncProducer", "PartiQLUpdate", f"unique:{ORDER}"),
    "producer reads another type": ("Policies/SyncProducer", "GetItem", ORDER),
    "reader writes": ("Policies/Reader", "UpdateItem", ORDER),
    "eraser deletes a row": ("Policies/Eraser", "DeleteItem", ORDER),
    "eraser replaces a row": ("Policies/Eraser", "PutItem", ORDER),
    "operator deletes a row": ("Policies/Operator", "DeleteItem", ORDER),
    "operator replaces a row": ("Policies/Operator", "PutItem", ORDER),
}
REAL = {
    "worker claims": ("PaymentsWorker/Worker", "UpdateItem", ORDER),
    "worker checks the identity": ("PaymentsWorker/Worker", "GetItem", IDENTITY_KEY),
    "worker counts its alert": ("SyncWorker/Worker", "UpdateItem", f"alerts:review:{CONTACT}"),
    "producer enqueues": ("Policies/PaymentsProducer", "PartiQLInsert", ORDER),
    "producer reads its job": ("Policies/PaymentsProducer", "GetItem", ORDER),
    "producer takes a window": ("Policies/SyncProducer", "PartiQLInsert", f"unique:{CONTACT}"),
    "producer replaces a window": ("Policies/SyncProducer", "PartiQLUpdate", f"unique:{CONTACT}"),
    "reconciler resolves": ("Reconciler/Resolve", "UpdateItem", ORDER),
    "eraser erases": ("Policies/Eraser", "UpdateItem", ORDER),
    "operator repairs": ("Policies/Operator", "UpdateItem", ORDER),
}


@pytest.mark.parametrize("what", FORGED)
def test_forged_request_is_denied(granted: set[Permission], what: str) -> None:
    role, action, key = FORGED[what]
    assert not is_allowed(granted, Request(role, f"dynamodb:{action}", JOBS, (key,)))


@pytest.mark.parametrize("what", REAL)
def test_real_request_is_allowed(granted: set[Permission], what: str) -> None:
    role, action, key = REAL[what]
    assert is_allowed(granted, Request(role, f"dynamodb:{action}", JOBS, (key,)))


NEW_ROW = tuple(new_row_attributes())


def test_new_row_of_every_contract_may_be_inserted(granted: set[Permission]) -> None:
    """`customer_id`, `amount` and the like come from a claim."""
    world = InMemoryStack()
    messages = [
        *({"job": "payment.charge", "v": 1, "order_id": "1"},),
        *({"job": "receipt.send", "v": 1, "order_id": "1"},),
        *({"job": "sync.push", "v": 1, "target": "hubspot", "record_id": "1", "version": 1},),
    ]
    for message in messages:
        world.enqueuer().enqueue(message)

    for job in world.store.jobs.values():
        queue = next(one.queue for one in SHIPPED_JOBS if one.job_type == job.job_type)
        role = f"Policies/{pascal_case(queue)}Producer"
        names = tuple(serialize_job(job))
        request = Request(role, "dynamodb:PartiQLInsert", JOBS, (job.job_key,), names)
        assert is_allowed(granted, request), names
    assert len(world.store.jobs) == len(messages)


# By the first, a row of ours is told from a forged one.
@pytest.mark.parametrize("forged", [*NOT_INSERTABLE, "provider_ref", "claimed_at", "fingerprint"])
def test_producer_cannot_insert_what_only_functions_write(
    granted: set[Permission], forged: str
) -> None:
    row = Request("Policies/PaymentsProducer", "dynamodb:PartiQLInsert", JOBS, (ORDER,), NEW_ROW)

    assert is_allowed(granted, row)
    assert not is_allowed(granted, replace(row, attributes=(*NEW_ROW, forged)))


@pytest.mark.parametrize("action", ["PartiQLInsert", "PartiQLUpdate"])
@pytest.mark.parametrize("forged", ["status", "customer_id", "due", "result"])
def test_producer_cannot_make_window_pass_for_job(
    granted: set[Permission], action: str, forged: str
) -> None:
    """A search by customer would show it as a payment that was made."""
    own = tuple(window_attributes())
    key = (f"unique:{ORDER}",)
    window = Request("Policies/PaymentsProducer", f"dynamodb:{action}", JOBS, key, own)

    assert is_allowed(granted, window)
    assert not is_allowed(granted, replace(window, attributes=(*own, forged)))


@pytest.mark.parametrize("key", [(ORDER, CONTACT), (CONTACT, ORDER)])
def test_one_foreign_key_denies_whole_request(granted: set[Permission], key: tuple[str]) -> None:
    assert not is_allowed(granted, Request("SyncWorker/Worker", "dynamodb:GetItem", JOBS, key))


def test_policies_are_printed_and_fit_their_size(prod: Assembly) -> None:
    policies = prod.properties("AWS::IAM::ManagedPolicy")
    outputs = {name for name in prod.template["Outputs"] if name.endswith("PolicyArn")}

    names = (*map(pascal_case, REQUIRED.queues), "Reader", "Operator")
    assert outputs == {
        *(f"{name}ProducerPolicyArn" for name in names[:-2]),
        *("ReaderPolicyArn", "OperatorPolicyArn", "EraserPolicyArn"),
    }
    assert len(policies) == len(outputs)
    for policy in policies.values():
        assert not policy.keys() & {"Roles", "Users", "Groups"}
        # A deploy-time value is about as long as its place in the template.
        text = json.dumps(policy["PolicyDocument"], separators=(",", ":"))
        assert len(text) < MAX_POLICY_CHARACTERS


def test_only_operators_pause_and_workers_reach_only_gates_of_their_providers(
    granted: set[Permission],
) -> None:
    pausing = {
        one.role
        for one in granted
        if one.resource == GATES
        and is_allowed(granted, Request(one.role, "dynamodb:UpdateItem", GATES, ("pause:x.y",)))
    }
    # The eraser removes reasons that name a person.
    assert pausing == {"AdminPage/Repair", "Policies/Eraser", "Policies/Operator"}
    mail = Request("MailWorker/Worker", "dynamodb:UpdateItem", GATES, ("stripe:effects",))
    assert not is_allowed(granted, mail)
    own = Request("PaymentsWorker/Worker", "dynamodb:UpdateItem", GATES, ("stripe:effects",))
    assert is_allowed(granted, own)
