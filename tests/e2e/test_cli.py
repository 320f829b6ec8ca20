"""The `oncely` command against the deployed stack, in a separate process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from oncely_local.account import STACK_NAME
from oncely_local.engine import REPOSITORY, aws_environment
from tests.e2e import scenarios
from tests.e2e.deployed_stack import StackClient
from tests.support.forked_cli import run_command


def run_cli(
    stack: StackClient, *words: str, code: int = 0, name: str = STACK_NAME, stdin_text: str = ""
) -> str:
    is_operators = name == STACK_NAME and words[:2] != ("archive", "backfill")
    env = stack.once(operator_environment) if is_operators else aws_environment(stack.engine.url)
    done = run_command(
        ["oncely", *words],
        env={**env, "PATH": os.environ["PATH"], "ONCELY_STACK": name},
        cwd=REPOSITORY,
        stdin_text=stdin_text,
    )
    assert done.returncode == code, f"{words}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stdout + done.stderr


def operator_environment(stack: StackClient) -> dict[str, str]:
    """An operator who also enqueues: the engine refuses what the stack's policies do not allow."""
    producers = [name for name in stack.outputs if name.endswith("ProducerPolicyArn")]
    policies = ("ReaderPolicyArn", "OperatorPolicyArn", *producers)
    return stack.user("operator", *policies)


def run_cli_json(stack: StackClient, *words: str, code: int = 0) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run_cli(stack, *words, "--json", code=code).splitlines()]


def test_job_is_sent_found_and_shown(deployment: StackClient) -> None:
    scenarios.put_order(deployment, "command")

    sent = run_cli(deployment, "send", "payment.charge", "order_id=command")
    key = "payment.charge:order_command"
    deployment.wait_for_job(key, "finished")
    again = run_cli_json(deployment, "send", "payment.charge", "order_id=command")

    assert sent == f"created    {key}\n"
    assert (again[0]["outcome"], again[0]["status"]) == ("duplicate", "finished")
    found = run_cli(deployment, "find", "command")
    assert found.startswith("Order command: charged once, 49.00 EUR on ")
    assert len(found.splitlines()) < 30
    (shown,) = run_cli_json(deployment, "show", key)
    assert (shown["status_label"], shown["amount_label"]) == ("done", "49.00 EUR")
    assert key in run_cli(deployment, "find", shown["provider_ref"])
    assert scenarios.count_charges(deployment, "command") == 1


def test_file_of_jobs_is_sent_once(deployment: StackClient, tmp_path: Path) -> None:
    file = tmp_path / "receipts.jsonl"
    ids = [f"nobody-{number}" for number in range(12)]
    for one in ids:
        scenarios.put_order(deployment, one, status="paid")
    lines = [json.dumps(scenarios.receipt_message(one)) for one in ids]
    file.write_text("\n".join(lines))

    first = run_cli(deployment, "send", "--file", str(file))
    second = run_cli(deployment, "send", "--file", "-", stdin_text=file.read_text())

    assert (first.splitlines()[-1], second.splitlines()[-1]) == ("12 created", "12 duplicate")


def test_job_in_review_is_repaired_by_named_operator(deployment: StackClient) -> None:
    key = "payment.charge:order_repaired"
    scenarios.put_order(deployment, "repaired", status="cancelled")
    deployment.send("PaymentsQueueUrl", scenarios.charge_message("repaired"))
    deployment.wait_for_job(key, "needs_review")
    scenarios.put_order(deployment, "repaired")
    why = ("--reason", "the bank's page shows it")

    assert "Repair it with" in run_cli(deployment, "show", key)
    assert "nothing was changed" in run_cli(deployment, "repair", key, "reopen", *why, "--dry-run")
    assert "needs_review" in str(deployment.job(key))
    done = run_cli(deployment, "repair", key, "reopen", *why, "--yes", "--as", "ada")

    assert "The job is now pending." in done
    job = deployment.wait_for_job(key, "finished")
    assert "ada (signed in as" in str(job["evidence"])
    assert "the bank's page shows it" in str(job["evidence"])
    assert scenarios.count_charges(deployment, "repaired") == 1


def test_repair_of_ended_job_is_rejected(deployment: StackClient) -> None:
    deployment.once(scenarios.successful_payment)
    key = "payment.charge:order_18452"
    said = run_cli(deployment, "repair", key, "mark-failed", "--reason", "no", "--yes", code=1)
    assert "Repair mark-failed is not allowed: it is already done." in said


def test_reconcile_dry_run_is_limited_to_one_job(deployment: StackClient) -> None:
    key = "payment.charge:order_18452"
    deployment.once(scenarios.successful_payment)

    (dry,) = run_cli_json(deployment, "reconcile", key, "--dry-run")
    said = run_cli(deployment, "reconcile", "--until", "2020-01-01")

    assert dry["status"] == "SUCCEEDED"
    assert [job["key"] for job in dry["jobs"]] in ([key], [])
    assert "No jobs are due" in said or "Checked" in said


def test_dead_letter_is_redriven(deployment: StackClient) -> None:
    key = "payment.charge:order_redriven"
    scenarios.put_order(deployment, "redriven")
    deployment.send("DeadLetterQueueUrl", scenarios.charge_message("redriven"))
    deployment.wait_for_job(key, "ready")

    assert key in run_cli(deployment, "redrive", "--dry-run")
    (sent,) = run_cli_json(deployment, "redrive", key, "--yes")

    assert sent["sent"] is True
    deployment.wait_for_job(key, "finished")
    assert scenarios.count_charges(deployment, "redriven") == 1


def test_doctor_finds_nothing_broken_on_deployed_stack(deployment: StackClient) -> None:
    deployment.once(scenarios.scheduled_sweep)

    found = run_cli_json(deployment, "doctor")
    assert [one for one in found if one["status"] == "broken"] == []
    assert [one for one in found if "check failed" in one["message"]] == []
    checks = {one["check"] for one in found}
    assert {"queue payments", "table jobs", "API key of stripe", "alerts"} <= checks
    # On a slow machine an alarm may fire meanwhile, and is listed by its name.
    assert any(one.startswith("alarm") for one in checks)


def test_doctor_names_worker_with_disabled_mapping(deployment: StackClient) -> None:
    deployment.once(scenarios.scheduled_sweep)
    with deployment.pause_consumers("Rejects") as (mapping,):
        found = run_cli_json(deployment, "doctor", code=4)

    (broken,) = (one for one in found if one["status"] == "broken")
    assert broken["check"] == "event source rejects"
    assert mapping in broken["fix"]


def test_local_option_finds_announced_stack(deployment: StackClient, tmp_path: Path) -> None:
    deployment.once(scenarios.successful_payment)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.oncely]\njobs = ["oncely.jobs.shipped:SHIPPED_JOBS"]\n'
    )
    (tmp_path / ".build").mkdir()
    state = {"endpoint": deployment.engine.url, "stack": STACK_NAME, "pid": os.getpid()}
    (tmp_path / ".build" / "local.json").write_text(json.dumps(state))
    done = subprocess.run(
        [sys.executable, "-m", "oncely.cli", "find", "18452", "--local"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY / "functions")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    verdict = done.stdout.partition("\n")[0]
    # Another test may have asked for a refund whose outcome is not known yet.
    assert verdict.startswith("Order 18452: ")
    assert "charged once, 49.00 EUR on " in verdict


def test_missing_stack_is_reported_in_one_line(deployment: StackClient) -> None:
    said = run_cli(deployment, "find", "18452", name="Oncely-nowhere", code=3)
    assert said.startswith("Stack Oncely-nowhere not found in us-east-1. Name yours")
    assert len(said.splitlines()) == 1


def test_hostile_order_id_is_found_and_escaped(deployment: StackClient) -> None:
    hostile = "'\"[red]\x1b[31m; DROP\u202e"
    scenarios.put_order(deployment, hostile)

    run_cli(deployment, "send", json.dumps(scenarios.charge_message(hostile)))
    found = run_cli(deployment, "find", hostile)

    assert "[red]" in found
    assert "\x1b" not in found
    assert "\u202e" not in found
