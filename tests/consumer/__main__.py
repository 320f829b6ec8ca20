"""`make consumer`: a team's repository that uses the built wheel, and nothing of this folder.

Builds the wheel, installs it into a new environment, starts a project with `oncely init`, and runs
what the team would: its tests, the type checker, the command, a lock, a synthesis in each of the
three ways, and the demo. Then shop_checks.py deploys a shop with its own provider, and
quickstart.py follows the quickstart in a fresh clone.
"""

import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from hatchling import build

from tests.consumer.quickstart import check_quickstart
from tests.consumer.shell import CDK, REPOSITORY, expect, install_wheel, run, step
from tests.consumer.shop_checks import check_shop
from tests.docs.pages import page

EXTRAS: Final = ("cdk", "command", "testing", "worker")
JOB: Final = "voucher.issue"
# The commands of docs/adopt.md, in their order; the last one runs the demo.
*START, DEMO = (one.line for one in page("docs/adopt.md").commands() if not one.not_run)
TYPED: Final = ("jobs", "tests", "app.py", "ways.py", "issue.py")
# The stacks of each app.
APPS: Final = {"app.py": ("Shop-dev",), "ways.py": ("ShopConstruct-dev", "ShopOwn-dev")}

# Beside the generated app.py, which is the stack of its own.
WAYS: Final = '''\
"""Oncely in stacks that the shop has: as a construct, and with the shop's own queue and worker."""

from aws_cdk import App, Duration, IgnoreMode, Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from oncely_cdk import Oncely, read_stage_file

from jobs.job_list import JOBS

LOCK = "requirements-jobs.txt"


class ShopStack(Stack):  # type: ignore[misc]  # the types of the CDK are skipped
    def __init__(self, scope: Construct, id_: str) -> None:
        super().__init__(scope, id_)
        jobs = Oncely(
            self,
            "Jobs",
            jobs=JOBS,
            settings=read_stage_file("stages/dev.toml"),
            environment={"VOUCHER_CURRENCY": "EUR"},
            requirements=LOCK,
        )
        site = lambda_.Function(
            self,
            "Site",
            runtime=lambda_.Runtime.PYTHON_3_13,
            handler="index.handler",
            code=lambda_.Code.from_inline("def handler(event, context): pass"),
        )
        jobs.grant_send(site)


class OwnWorkerStack(Stack):  # type: ignore[misc]  # as above
    def __init__(self, scope: Construct, id_: str) -> None:
        super().__init__(scope, id_)
        queue = sqs.Queue(self, "Orders", visibility_timeout=Duration.minutes(6))
        function = lambda_.Function(
            self,
            "Issue",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            timeout=Duration.minutes(1),
            handler="issue.handler",
            code=lambda_.Code.from_asset(
                ".",
                exclude=["*", ".*", "!issue.py", "!jobs", "!jobs/*.py"],
                ignore_mode=IgnoreMode.GLOB,
            ),
        )
        Oncely(
            self,
            "Jobs",
            jobs=JOBS,
            settings=read_stage_file("stages/dev.toml"),
            queues={"voucher_issue": queue},
            workers={"voucher_issue": function},
            requirements=LOCK,
        )


if __name__ == "__main__":
    app = App(outdir="cdk.out", analytics_reporting=False)
    ShopStack(app, "ShopConstruct-dev")
    OwnWorkerStack(app, "ShopOwn-dev")
    app.synth()
'''
OWN_FUNCTION: Final = '''\
"""The shop's own function."""

import oncely

from jobs.voucher_issue import VoucherIssue

handler = oncely.worker(jobs=[VoucherIssue])
'''
OTHER_JOBS: Final = {"parcel.ship": "at_most_once", "invoice.finalize": "lookup"}
INVOICE: Final = Path(__file__).with_name("invoice_finalize.py")
# An installed package that no layer of Oncely has; it comes with pytest.
PACKAGE: Final = "iniconfig"


def main() -> None:
    """Run every step, and print how long each took."""
    with tempfile.TemporaryDirectory(prefix="oncely-consumer-") as scratch:
        folder = Path(scratch)
        with step("build the wheel"):
            wheel = _build_wheel(folder)
        with step("install it into a new environment"):
            python = _install(folder, wheel)
        project, oncely = folder / "shop", python.with_name("oncely")
        path = os.pathsep.join([str(python.parent), str(CDK.parent), os.environ["PATH"]])
        with step("start a project and run its tests, as docs/adopt.md does"):
            run(folder, "/bin/sh", "-euc", "\n".join(START), PATH=path)
            (project / "ways.py").write_text(WAYS, encoding="utf-8")
            (project / "issue.py").write_text(OWN_FUNCTION, encoding="utf-8")
        with step("install its packages with the pip that Python ships"):
            install = (python, "-m", "pip", "install", "--quiet", "--constraint")
            run(project, *install, folder / "constraints.txt", "-r", "requirements-dev.txt")
        with step("check its types with mypy --strict"):
            mypy = (sys.executable, "-m", "mypy", "--python-executable", str(python))
            run(project, *mypy, *TYPED)
        with step("list its jobs with the command"):
            expect(run(project, oncely, "contracts"), f"{JOB} (queue voucher_issue)")
        with step(f"lock {PACKAGE}"):
            with (project / "jobs" / "voucher_issue.py").open("a", encoding="utf-8") as job:
                job.write(f"\nimport {PACKAGE}\n")
            (project / "requirements-jobs.in").write_text(f"{PACKAGE}\n", encoding="utf-8")
            expect(run(project, oncely, "lock"), "wrote requirements-jobs.txt")
        with step("synthesize a stack in each of the three ways"):
            for app, stacks in APPS.items():
                shutil.rmtree(project / "cdk.out", ignore_errors=True)
                run(project, python, app, CDK_OUTDIR="cdk.out")
                _check_assembly(project / "cdk.out", stacks)
        with step("run its demo, as docs/adopt.md does"):
            demo = run(project, "/bin/sh", "-euc", DEMO, PATH=path)
            expect(demo, "Every guarantee held")
        with step("add jobs of other safety classes"):
            for name, safety in OTHER_JOBS.items():
                run(project, oncely, "new-job", name, "--safety", safety)
            shutil.copy(INVOICE, project / "jobs")
            run(project, python, "-m", "pytest", "-q")
            run(project, *mypy, *TYPED)
        with step("run the demo of all of them, with many lost responses"):
            words = ("demo", "--jobs", "90", "--faults", "heavy")
            demo = run(project, oncely, *words, PATH=path)
            for expected in ("0  double effects at invoices", "Every guarantee held"):
                expect(demo, expected)
        check_shop(folder, python, wheel)
        check_quickstart(folder)


def _build_wheel(folder: Path) -> Path:
    os.chdir(REPOSITORY)
    return folder / build.build_wheel(str(folder))


def _install(folder: Path, wheel: Path) -> Path:
    """Install the wheel with its extras, in the versions that this repository tests with."""
    pins = re.findall(
        r"^[\w.-]+==\S+", (REPOSITORY / "requirements/dev.txt").read_text(), re.MULTILINE
    )
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(pins), encoding="utf-8")
    run(folder, sys.executable, "-m", "venv", "venv")
    python = folder / "venv" / "bin" / "python"
    # uv is many times faster than pip, and `oncely lock` needs it as well.
    run(folder, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv")
    install_wheel(folder, python, wheel, EXTRAS, "pytest")
    return python


def _check_assembly(folder: Path, stacks: tuple[str, ...]) -> None:
    for name in stacks:
        template = json.loads((folder / f"{name}.template.json").read_text(encoding="utf-8"))
        expect("\n".join(template["Outputs"]), "VoucherIssueQueueUrl")
        functions = [
            one["Properties"]
            for one in template["Resources"].values()
            if one["Type"] == "AWS::Lambda::Function" and "S3Key" in one["Properties"]["Code"]
        ]
        named = {one["Environment"]["Variables"].get("ONCELY_JOBS") for one in functions}
        if "jobs.voucher_issue:VoucherIssue" not in named:
            sys.exit(f"no function of {name} has the job: {named}")
        for one in functions:
            asset = folder / f"asset.{one['Code']['S3Key'].removesuffix('.zip')}"
            shipped = {path.name for path in asset.iterdir()}
            if shipped - {"issue.py", "CODE_STAMP"} != {"jobs"}:
                sys.exit(f"{asset} ships {shipped}")


if __name__ == "__main__":
    main()
