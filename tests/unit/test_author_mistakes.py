"""A mistake in a job class is found when it is imported, and the error says how to correct it."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from types import new_class
from typing import Any

import pytest

from oncely.contracts.job import AnyJob, Job
from oncely.core.effect_outcomes import BusinessWrite, EffectOutcome, LookupOutcome, Succeeded
from oncely.core.ended_jobs import DataOwner
from oncely.core.job_type import Call
from oncely.providers.stripe.plugin import STRIPE
from tests.unit.errand_job import Errand
from tests.unit.samples import PROFILE

BLIND = replace(PROFILE, lookup_lag=None)
KEYLESS = replace(BLIND, key_ttl=None)


def execute(self: AnyJob, call: Call[Any]) -> EffectOutcome:
    return Succeeded("issued")


def lookup(self: AnyJob, call: Call[Any]) -> LookupOutcome:
    return Succeeded("was issued")


async def later(self: AnyJob, call: Call[Any]) -> EffectOutcome:
    return Succeeded("issued")


def write(self: AnyJob, call: Call[Any]) -> tuple[BusinessWrite, ...]:
    return ()


VALID: dict[str, object] = {
    "__module__": __name__,
    "__doc__": "A voucher is issued.",
    "__annotations__": {"order_id": str},
    "key": "order_id",
    "profile": PROFILE,
    "execute": execute,
}


def declare(
    name: str = "VoucherIssue", without: Iterable[str] = (), **more: object
) -> type[AnyJob]:
    """A valid job class, with one mistake."""
    members = {one: value for one, value in {**VALID, **more}.items() if one not in without}
    made: type[AnyJob] = new_class(name, (Job,), {}, lambda names: names.update(members))
    return made


def fields(**types: object) -> dict[str, object]:
    return {"order_id": str, **types}


@pytest.mark.parametrize(
    ("name", "job_type"),
    [
        ("VoucherIssue", "voucher.issue"),
        ("SyncPushAll", "sync.push_all"),
        ("CRMSyncV2", "crm.sync_v2"),
        ("PushCRM", "push.crm"),
    ],
)
def test_job_type_is_derived_from_name(name: str, job_type: str) -> None:
    assert declare(name).job_type == job_type


def test_own_methods_and_classes_are_no_mistake() -> None:
    class LongErrand(Errand):
        class Line:
            """One of its lines."""

        def lines(self) -> list[Line]:
            return [self.Line()]

        @property
        def total(self) -> int:
            return len(self.lines())

    assert LongErrand(errand_id="7").total == 1


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        pytest.param(
            {"without": ["key"]},
            'it has no key. Name the field that identifies it, such as key = "order_id"',
            id="no key",
        ),
        pytest.param(
            {"attempt": 1, "__annotations__": fields(attempt=int), "key": "attempt"},
            (
                "its key names attempt, which has a default, so two messages for one "
                "job could have two keys. Make it required, or leave it out of the key"
            ),
            id="key with a default",
        ),
        pytest.param(
            {"key": "oder_id"},
            "its key names oder_id, which is no field. Did you mean order_id?",
            id="key that is nearly a field",
        ),
        pytest.param(
            {"key": "voucher"},
            "its key names voucher, which is no field. Did you mean order_id?",
            id="key that is no field",
        ),
        pytest.param(
            {"key": ("order_id", "amount"), "__annotations__": fields(amount=float)},
            "its key names amount, which is neither str nor int. A key is made of ids",
            id="key of a wrong type",
        ),
        pytest.param(
            {"key": "order_id", "__annotations__": {}},
            "its key names order_id, which is no field. Add order_id: str",
            id="no field at all",
        ),
        pytest.param(
            {"saftey": "natural"},
            "saftey is neither a field nor a declaration of a job. Did you mean safety?",
            id="misspelt declaration",
        ),
        pytest.param(
            {"setings": dict},
            "setings is neither a field nor a declaration of a job. Did you mean settings?",
            id="misspelt declaration of a class",
        ),
        pytest.param(
            {"colour": "red"},
            (
                "colour is neither a field nor a declaration of a job. A field needs a "
                "type: colour: str"
            ),
            id="field without a type",
        ),
        pytest.param(
            {"on_sucess": write},
            "on_sucess is no step of a job. Did you mean on_success? If not, write _on_sucess",
            id="misspelt step",
        ),
        pytest.param(
            {"exectue": execute, "without": ["execute"]},
            "exectue is no step of a job. Did you mean execute? If not, write _exectue",
            id="misspelt execute",
        ),
        pytest.param(
            {"saftey": "natural", "without": ["execute"]},
            "saftey is neither a field nor a declaration of a job. Did you mean safety?",
            id="misspelt declaration of a base class",
        ),
        pytest.param(
            {"__annotations__": fields(provider=str)},
            "the field provider has the name of a declaration of every job. Rename the field",
            id="field named like a declaration",
        ),
        pytest.param(
            {"without": ["profile"]},
            'it has no provider. Add one: provider = HttpProvider("vouchers", key_ttl="24h")',
            id="no provider",
        ),
        pytest.param(
            {"provider": {}, "without": ["profile"]},
            'it has no provider. Add one: provider = HttpProvider("vouchers", key_ttl="24h")',
            id="choice of no provider",
        ),
        pytest.param(
            {"provider": {"strip": STRIPE}},
            "its provider 'strip' has the name 'stripe'. Use the same name twice",
            id="provider of another name",
        ),
        pytest.param(
            {"profile": BLIND, "lookup": lookup},
            (
                "it has a lookup, but Acme has no lookup_lag. Say there how long a lookup"
                ' may miss a new effect: lookup_lag="10s", or "0s" if its documentation '
                "says never"
            ),
            id="lookup without a lag",
        ),
        pytest.param(
            {"profile": BLIND, "safety": "lookup", "lookup": lookup},
            (
                "it has a lookup, but Acme has no lookup_lag. Say there how long a lookup"
                ' may miss a new effect: lookup_lag="10s", or "0s" if its documentation '
                "says never"
            ),
            id="lookup safety without a lag",
        ),
        pytest.param(
            {"profile": KEYLESS, "safety": "keyed"},
            (
                "its safety is keyed, but Acme has no key_ttl. Say how long it remembers "
                "an idempotency key, or remove safety"
            ),
            id="keyed without a key window",
        ),
        pytest.param(
            {"safety": "lookup"},
            "its safety is lookup, but it has no lookup. Define lookup, or remove safety",
            id="lookup safety without a lookup",
        ),
        pytest.param(
            {"safety": "natural", "lookup": lookup},
            "its safety is natural, so its lookup is never used. Remove one of the two",
            id="natural with a lookup",
        ),
        pytest.param(
            {"safety": "idempotent"},
            "its safety is 'idempotent'. Choose natural, keyed, lookup, at_most_once",
            id="unknown safety",
        ),
        pytest.param(
            {"profile": replace(PROFILE, key_ttl=None)},
            (
                "Acme can look up, but the job has no lookup. Define lookup, or set "
                'safety = "at_most_once": then an operator decides after each lost '
                "response"
            ),
            id="provider can look up",
        ),
        pytest.param(
            {"execute": later},
            "execute is async. Write def execute(…): a worker runs each job in its own thread",
            id="async step",
        ),
        pytest.param(
            {"on_success": write},
            'on_success writes business rows, but no table is declared. Add writes = ("orders",)',
            id="write without a table",
        ),
        pytest.param(
            {"name": "Voucher"},
            'its name has one word. Name it like VoucherIssue, or set job_type = "voucher.issue"',
            id="name of one word",
        ),
        pytest.param(
            {"job_type": "voucher"},
            "its job_type is 'voucher'. Write it like payment.charge",
            id="job type without a dot",
        ),
        pytest.param(
            {"without": ["__doc__"]},
            "it has no docstring. Say for operators what happens at the provider",
            id="no docstring",
        ),
        pytest.param(
            {"__annotations__": fields(email=str, phone=str)},
            "it has personal data (email, phone). Name it in personal_fields, for `oncely erase`",
            id="personal data",
        ),
        pytest.param(
            {"personal_fields": ("mail",), "data_owner": DataOwner.CUSTOMER},
            "personal_fields names mail, which is no field. Remove it",
            id="personal data that is no field",
        ),
        pytest.param(
            {"__annotations__": fields(email=str), "personal_fields": ("email",)},
            (
                "its rows hold personal data. Set data_owner to say whose, such as "
                "DataOwner.CUSTOMER"
            ),
            id="personal data of nobody",
        ),
        pytest.param(
            {"schedule_limit": timedelta(days=-1)},
            "its schedule_limit must be between 0 and 3650 days",
            id="schedule limit below zero",
        ),
        pytest.param(
            {"schedule_limit": timedelta.max},
            "its schedule_limit must be between 0 and 3650 days",
            id="schedule limit too long",
        ),
    ],
)
def test_mistake_is_named_with_its_correction(mistake: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TypeError) as caught:
        declare(**mistake)
    assert str(caught.value) == f"{mistake.get('name', 'VoucherIssue')}: {sentence}"
