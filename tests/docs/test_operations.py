"""docs/operations.md quotes log lines as the code writes them."""

import re

from oncely_cdk import OncelySettings
from tests.docs.change_cost import product_strings
from tests.docs.pages import page

_QUOTE = re.compile(r"`([a-z]+(?: [a-z]+)+)`")
_ROW = re.compile(r"^\| (`[a-z_`, ]+`) \|", re.MULTILINE)
# What the CDK, the file's name or a deployment sets.
_NOT_IN_FILES = {"name", "file", "identity", "providers_address"}
_COMMANDS = ("aws ", "make ", "oncely ")


def test_quoted_log_lines_are_in_code() -> None:
    quoted = {
        one
        for one in _QUOTE.findall(page("docs/operations.md").prose)
        if not one.startswith(_COMMANDS)
    }

    assert len(quoted) > 3
    assert quoted <= product_strings()


def test_tables_of_settings_name_each_setting_of_a_stage_once() -> None:
    section = page("docs/operations.md").text.partition("\n## Settings of a stage\n")[2]
    rows = _ROW.findall(section.partition("\n## ")[0])
    named = [name for row in rows for name in re.findall(r"\w+", row)]
    assert sorted(named) == sorted(OncelySettings.model_fields.keys() - _NOT_IN_FILES)
