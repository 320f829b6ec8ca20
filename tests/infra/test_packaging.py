"""What functions ship, how large it is, and that nothing else changes its hash."""

import shutil
from pathlib import Path

import pytest
from aws_cdk import App, Stack
from aws_cdk.aws_s3_assets import Asset

from infra import FUNCTIONS, code
from tests.infra.assembly import Assembly

ENTRIES = sorted(path.parent.name for path in FUNCTIONS.glob("*/handler.py"))


def test_every_entry_point_is_deployed(prod: Assembly) -> None:
    assert sorted({function.entry for function in prod.functions.values()}) == ENTRIES


def test_an_asset_holds_the_shared_package_and_its_own_folder_only(prod: Assembly) -> None:
    for function in prod.functions.values():
        assert {path.name for path in function.folder.iterdir()} == {"oncely", function.entry}


def test_what_contracts_are_tested_with_is_not_shipped(prod: Assembly) -> None:
    for function in prod.functions.values():
        assert not (function.folder / "oncely" / "testing").exists()


def test_no_tools_droppings_are_shipped(prod: Assembly) -> None:
    for function in prod.functions.values():
        odd = [
            path
            for path in function.folder.rglob("*")
            if path.name.startswith(".") or path.name == "__pycache__" or path.suffix == ".pyc"
        ]
        assert odd == []


def test_only_the_payment_side_carries_stripe_and_only_the_sync_side_hubspot(
    prod: Assembly,
) -> None:
    extra = {name: set(function.layers) - {"runtime"} for name, function in prod.functions.items()}

    assert {name: found for name, found in extra.items() if found} == {
        "PaymentsWorker/Worker": {"payments"},
        "SyncWorker/Worker": {"sync"},
        "Reconciler/Resolve": {"payments", "sync"},
        "Support/Repair": {"payments", "sync"},
    }


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of functions/ to change."""
    copy = tmp_path / "functions"
    shutil.copytree(FUNCTIONS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code, "FUNCTIONS", copy)
    return copy


def hashes() -> dict[str, str]:
    """The hash of what each entry point ships, as the CDK makes it."""
    stack = Stack(App(), "Hashes")
    made = {
        entry: Asset(
            stack,
            entry,
            path=code.function_code(entry).path,
            exclude=code.left_out(entry),
            ignore_mode=code.LEFT_OUT_AS,
        )
        for entry in ENTRIES
    }
    return {entry: asset.asset_hash for entry, asset in made.items()}


def test_a_functions_hash_changes_with_its_own_folder_only(tree: Path) -> None:
    before = hashes()
    (tree / "find_due" / "handler.py").write_text("changed = True\n", encoding="utf-8")

    after = hashes()

    assert {entry for entry in ENTRIES if after[entry] != before[entry]} == {"find_due"}


def test_caches_and_new_neighbours_change_no_hash(tree: Path) -> None:
    before = hashes()
    (tree / "oncely" / "__pycache__").mkdir()
    (tree / "oncely" / "__pycache__" / "contract.pyc").write_bytes(b"bytecode")
    (tree / "new_neighbour").mkdir()
    (tree / "new_neighbour" / "handler.py").write_text("new = True\n", encoding="utf-8")

    assert hashes() == before


def test_a_change_of_the_shared_package_changes_every_function(tree: Path) -> None:
    before = hashes()
    (tree / "oncely" / "contract.py").write_text("changed = True\n", encoding="utf-8")

    after = hashes()

    assert all(after[entry] != before[entry] for entry in ENTRIES)
