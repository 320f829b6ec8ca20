"""`oncely schemas`: the messages as JSON schemas and TypeScript types."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

import oncely
from oncely.cli.schemas import typescript_types
from oncely.contracts.job import Job
from oncely.core.effect_outcomes import Succeeded
from oncely.core.job_type import Call
from oncely.jobs.shipped import SHIPPED_JOBS
from tests.support.cli import run_cli
from tests.unit.samples import PROFILE


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class ParcelLabel(BaseModel):
    """A label: not */ an end."""

    model_config = ConfigDict(extra="allow")

    text: str
    parts: list["ParcelLabel"] = []


class ParcelShip(Job):
    """Ship a parcel."""

    key = "parcel_id"
    profile = PROFILE
    safety = "natural"

    parcel_id: int = Field(description="of the warehouse")
    weights: list[float]
    corner: tuple[int, str]
    size: Size | None = None
    carrier: Literal["dhl", "ups"] = "dhl"
    is_gift: bool = False
    counts: dict[str, int] | None = None
    anything: object = None
    label: ParcelLabel | None = Field(default=None, description="inside")

    def execute(self, call: Call) -> Succeeded:
        return Succeeded("shipped")


TYPES = """\
/** Ship a parcel. */
export type ParcelShip = {
  job: "parcel.ship";
  v: 1;
  /** time with a zone */
  run_at?: string | null;
  /** of the warehouse */
  parcel_id: number;
  weights: Array<number>;
  corner: [number, string];
  size?: ParcelShip_Size | null;
  carrier?: "dhl" | "ups";
  is_gift?: boolean;
  counts?: Record<string, number> | null;
  anything?: unknown;
  /** inside */
  label?: ParcelShip_ParcelLabel | null;
};

/** A label: not *\\/ an end. */
export type ParcelShip_ParcelLabel = {
  text: string;
  parts?: Array<ParcelShip_ParcelLabel>;
  [name: string]: unknown;
};

export type ParcelShip_Size = "small" | "large";

export type Message = ParcelShip;
"""


def test_each_kind_of_field_has_its_type() -> None:
    intro, _, types = typescript_types([ParcelShip]).partition("\n\n")
    assert types == TYPES
    assert intro.startswith("// Written by `oncely schemas`.")


def test_message_is_union_of_all_types() -> None:
    union = run_cli("schemas", "--typescript").stdout.splitlines()[-1]
    assert union.startswith("export type Message = PaymentCharge | PaymentRefund | ")


def test_schemas_are_printed_one_per_line() -> None:
    printed = [json.loads(line) for line in run_cli("schemas").stdout.splitlines()]
    assert printed == [job.message_schema() for job in SHIPPED_JOBS]


SHIPPED = Path(oncely.__file__).parent / "schemas"


@pytest.mark.parametrize(
    ("option", "suffixes"),
    [((), {".json", ".ts"}), (("--json",), {".json"}), (("--typescript",), {".ts"})],
)
def test_chosen_files_are_written_as_they_ship(
    tmp_path: Path, option: tuple[str, ...], suffixes: set[str]
) -> None:
    folder = tmp_path / "new" / "folder"
    assert run_cli("schemas", *option, "--output", str(folder)).exit_code == 0
    assert {one.name: one.read_text() for one in folder.iterdir()} == {
        one.name: one.read_text() for one in SHIPPED.iterdir() if one.suffix in suffixes
    }


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run_cli("schemas", "--output", str(tmp_path / "file"))
    assert result.exit_code == 1
    assert "Cannot write" in result.stderr


def test_both_choices_are_refused() -> None:
    assert run_cli("schemas", "--json", "--typescript").exit_code == 2
