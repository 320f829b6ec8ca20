"""Finding: due rows and work that never became a row; nothing else."""

import pytest

from oncely.domain.errors import InvalidMessageError
from oncely.domain.lifecycle import Status
from oncely.services.find_due import Finder, Found, Sweep
from oncely.testing.memory import MemoryDueIndex
from tests.support.payments import Fault
from tests.support.world import World, charge

KEY = "payment.charge:order_18452"


def find(world: World, **sweep: object) -> Found:
    finder = Finder(
        registry=world.registry,
        tools=world.tools,
        store=world.store,
        index=MemoryDueIndex(world.store),
        clock=world.clock,
    )
    return finder.find(Sweep.of(sweep))


def keys(found: Found) -> list[str]:
    return [item.key for item in found.items]


def test_an_unknown_job_is_found_when_it_is_due() -> None:
    world = World()
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)
    world.run(charge())

    found = find(world)

    assert keys(found) == [KEY]


def test_an_order_that_asked_for_its_payment_and_has_no_job_is_found_and_charged_once() -> None:
    world = World()
    world.add_order()
    world.clock.move(hours=1)

    (item,) = find(world).items
    done = world.reconciler().resolve(item.key, message=item.message)
    world.run(world.outbox.sent.pop())

    assert done.outcome == "ready"
    assert world.job(KEY).status is Status.FINISHED
    assert world.payments.charges == ["pi_1"]
    assert find(world, job_type="payment.charge").items == ()


def test_an_order_that_is_merely_pending_is_never_charged() -> None:
    world = World()
    world.add_order()
    row = {**world.order()}
    del row["charge_requested_at"]
    world.tools.rows.put("orders", {"order_id": "18452"}, row)
    world.clock.move(hours=1)

    found = find(world)

    assert found.items == ()


def test_an_order_whose_message_is_on_its_way_is_left_alone() -> None:
    world = World()
    world.add_order(charge_requested_at="2026-11-16T02:59:30.000000Z")

    found = find(world)

    assert found.items == ()


def test_the_age_of_the_oldest_unresolved_job_is_told() -> None:
    world = World()
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)
    world.run(charge())
    world.clock.move(hours=2)

    found = find(world)

    assert found.oldest_age.total_seconds() == 7200


def test_a_sweep_of_one_key_or_one_type_finds_only_that() -> None:
    world = World()
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)
    world.run(charge())

    assert keys(find(world, key="other:key")) == ["other:key"]
    assert find(world, job_type="sync.contact").items == ()
    assert keys(find(world, **{"from": "2026-11-16T00:00:00Z", "to": "2027-01-01T00:00:00Z"})) == [
        KEY
    ]
    assert find(world, to="2026-11-15T00:00:00Z").items == ()


@pytest.mark.parametrize(
    "wrong",
    [{"limit": 0}, {"limit": 201}, {"limit": "all"}, {"from": "yesterday"}, {"jobs": "all"}],
)
def test_a_wrong_sweep_is_refused_with_a_sentence(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidMessageError, match="not a valid sweep"):
        Sweep.of(wrong)


def test_one_order_that_can_never_be_a_job_does_not_stop_the_sweep() -> None:
    world = World()
    world.add_order("é" * 60)
    world.add_order("x" * 300)
    world.add_order()
    world.clock.move(hours=1)

    assert keys(find(world)) == [KEY]
