// Bulk repairs: select jobs in a list, preview and confirm one repair for all, and follow the run.
import { continueBulk, startBulk } from "./api.js";
import { announce, button, el, errorBox } from "./elements.js";
import { ageElement, capitalizeSentence, jobHref } from "./format.js";

// The bulk actions of each list. The server checks each job again.
const REPAIRS = {
  failed: { resubmit: "Resubmit" },
  in_progress: { resend: "Resend", cancel: "Cancel" },
  needs_review: { "mark-failed": "Mark as failed", cancel: "Cancel" },
};
const DONE = ["done", "done before", "requested"];
const OUTCOMES = {
  done: "done",
  requested: "waiting for a second operator",
  "done before": "already done",
  changed: "changed since they were selected",
  refused: "refused",
  unreachable: "could not be reached",
};
// The run that was just confirmed starts at once. Any other waits for the Continue button.
let confirmedRun = null;

/** The selection of a list. Returns null if no repair applies to it, or the user cannot repair. */
export function bulkSelection(user, filter) {
  const repairs = user.can_repair ? REPAIRS[filter.status] : null;
  return repairs ? new BulkSelection(repairs, filter) : null;
}

class BulkSelection {
  #chosen = new Map();
  #ticks = new Map();
  #shown = el("input", { type: "checkbox", id: "select-shown" });
  #matching = el("input", { type: "checkbox", id: "select-matching" });
  #count = el("output", { for: "select-shown select-matching" });
  #actions = el("div.actions");

  constructor(repairs, filter) {
    const buttons = Object.entries(repairs).map(([repair, label]) =>
      button(`${label}…`, () => openBulkDialog(repair, label, this.#request(filter)), "button.button", {
        id: `bulk-${repair}`,
      }),
    );
    this.#actions.append(...buttons);
    this.#shown.addEventListener("change", () => this.#tickAll(this.#shown.checked));
    this.#matching.addEventListener("change", () => this.#update());
    this.bar = el(
      "section.bulk",
      { "aria-label": "Selection" },
      el("label", {}, this.#shown, "All shown"),
      el("label", {}, this.#matching, "All that match the filters, including those not shown"),
      this.#count,
      this.#actions,
    );
    this.#update();
  }

  /** The checkbox of one job. */
  tick(job) {
    const box = el("input", { type: "checkbox", "aria-label": `Select ${job.job_key}` });
    box.addEventListener("change", () => {
      if (box.checked) this.#chosen.set(job.job_key, job.version);
      else this.#chosen.delete(job.job_key);
      this.#update();
    });
    this.#ticks.set(job, box);
    return el("label.tick", {}, box);
  }

  #tickAll(checked) {
    for (const [job, box] of this.#ticks) {
      box.checked = checked;
      if (checked) this.#chosen.set(job.job_key, job.version);
    }
    if (!checked) this.#chosen.clear();
    this.#update();
  }

  #update() {
    const matching = this.#matching.checked;
    for (const box of this.#ticks.values()) box.disabled = matching;
    this.#shown.disabled = matching;
    this.#shown.checked = this.#chosen.size > 0 && this.#chosen.size === this.#ticks.size;
    this.#count.textContent = matching ? "All that match" : `${this.#chosen.size} selected`;
    this.#actions.hidden = !matching && !this.#chosen.size;
  }

  #request({ status, type, from, to, error, customer }) {
    if (!this.#matching.checked)
      return { chosen: [...this.#chosen].map(([key, version]) => ({ key, version })) };
    const wanted = { status, job_type: type, since: from, until: to, error, customer_id: customer };
    return Object.fromEntries(Object.entries(wanted).filter(([, value]) => value));
  }
}

/** Ask for a reason, show the count and some examples, and start the run. */
function openBulkDialog(repair, label, wanted) {
  const reason = el("textarea", { id: "reason", required: true, rows: "3", maxlength: "300" });
  const result = el("div.result", { "aria-live": "polite" });
  const confirm = el("button.button.primary", { hidden: true });
  const form = el(
    "form",
    { novalidate: true },
    el("h2", { id: "dialog-title" }, `${label}: multiple jobs`),
    el(
      "div.field",
      {},
      el("label", { for: "reason" }, "Reason"),
      reason,
      el("p.meta", {}, "Stored with each job, with your name."),
    ),
    result,
    el(
      "div.actions",
      {},
      button("Close", () => dialog.close(), "button.plain"),
      button("Preview", () => send({ dry_run: true }).then(showPreview)),
      confirm,
    ),
  );
  const dialog = el("dialog", { "aria-labelledby": "dialog-title" }, form);
  let expected = 0;

  async function send(more) {
    if (form.getAttribute("aria-busy") === "true") return null;
    if (!reason.value.trim()) {
      result.replaceChildren(errorBox("Enter a reason. It is stored with each job."));
      reason.focus();
      return null;
    }
    form.setAttribute("aria-busy", "true");
    try {
      return await startBulk({ ...wanted, repair, reason: reason.value.trim(), ...more });
    } catch (error) {
      confirm.hidden = true;
      result.replaceChildren(errorBox(capitalizeSentence(error.message)));
      return null;
    } finally {
      form.setAttribute("aria-busy", "false");
    }
  }

  function showPreview(found) {
    if (!found) return;
    expected = found.jobs;
    confirm.hidden = !expected;
    confirm.textContent = `${label}: ${countJobs(expected)}`;
    result.replaceChildren(el("h3", {}, "Preview: nothing was changed"), ...describeSelection(found));
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (confirm.hidden) return send({ dry_run: true }).then(showPreview);
    const run = await send({ dry_run: false, expected_jobs: expected });
    if (!run) return;
    confirmedRun = run.run_id;
    dialog.close();
    location.hash = `#/bulk/${encodeURIComponent(run.run_id)}`;
  });
  dialog.addEventListener("close", () => dialog.remove());
  addEventListener("hashchange", () => dialog.close(), { once: true });
  document.body.append(dialog);
  dialog.showModal();
  reason.focus();
}

function describeSelection({ jobs, refused, complete, examples }) {
  const others = Object.entries(refused).map(([why, number]) =>
    el("li", {}, `${countJobs(number)} left out: ${why}`),
  );
  const shown = examples.map(({ job_key: key, detail }) =>
    el("li", {}, el("bdi.code", {}, key), detail ? ` ${capitalizeSentence(detail)}` : null),
  );
  return [
    el("p", {}, `${countJobs(jobs)} can be repaired.`),
    complete ? null : el("p", {}, "The list is longer than one run can read. Start another run afterwards."),
    others.length ? el("ul", {}, others) : null,
    shown.length ? el("p.meta", {}, jobs > shown.length ? "For example:" : "Jobs:") : null,
    shown.length ? el("ul.examples", {}, shown) : null,
  ].filter(Boolean);
}

/** The view #/bulk/<run id>?from=<number>: the progress of a run, which can be continued. */
export async function showBulkRun({ name: runId, query }, { signal }) {
  const run = await continueBulk({ run_id: runId, limit: 0 });
  const view = new BulkRunView(run, Math.min(Number(query.get("from")) || 0, run.jobs), signal);
  if (confirmedRun === runId) queueMicrotask(() => view.perform());
  confirmedRun = null;
  const title = `${run.label}: ${countJobs(run.jobs)}`;
  return { title, nodes: view.nodes };
}

class BulkRunView {
  #outcomes = new Map();
  #stopped = false;
  #progress = el("progress", { "aria-label": "Progress" });
  #text = el("p.progress-text");
  #counts = el("ul.outcomes");
  #others = el("ol.others");
  #errors = el("div");
  #actions = el("div.actions");

  constructor(run, answered, signal) {
    Object.assign(this, { run, answered, signal });
    this.#progress.max = run.jobs;
    this.nodes = [
      el("h1", { tabindex: "-1" }, `${run.label}: ${countJobs(run.jobs)}`),
      el("p.meta", {}, `Started by ${run.actor} `, ageElement(run.created_at), " ago. Reason: ", run.reason),
      el("section.run", {}, this.#progress, this.#text, this.#errors, this.#actions, this.#counts, this.#others),
    ];
    this.#render();
  }

  /** Repair the rest, some jobs at a time. The link knows how far it is. */
  async perform(start = this.answered) {
    this.answered = start;
    this.#stopped = false;
    this.#errors.replaceChildren();
    this.running = true;
    while (this.answered < this.run.jobs && !this.#stopped && !this.signal.aborted) {
      this.#render();
      try {
        const part = await continueBulk({ run_id: this.run.run_id, start: this.answered });
        part.results.forEach((one) => this.#outcomes.set(one.job_key, one));
        this.answered = part.answered;
      } catch (error) {
        const again = "Continue the run. Nothing is done twice.";
        this.#errors.replaceChildren(errorBox(`${capitalizeSentence(error.message)} ${again}`));
        break;
      }
      if (!this.signal.aborted)
        history.replaceState(null, "", `#/bulk/${encodeURIComponent(this.run.run_id)}?from=${this.answered}`);
    }
    this.running = false;
    if (this.signal.aborted) return;
    this.#render();
    announce(this.#text.textContent);
  }

  #render() {
    const { answered, run } = this;
    const results = [...this.#outcomes.values()];
    this.#progress.value = answered;
    this.#text.textContent = `${answered.toLocaleString()} of ${countJobs(run.jobs)} processed`;
    const counted = Object.entries(OUTCOMES)
      .map(([name, text]) => [results.filter((one) => one.outcome === name).length, text])
      .filter(([number]) => number);
    this.#counts.replaceChildren(
      ...counted.map(([number, text]) => el("li", {}, el("strong", {}, number.toLocaleString()), ` ${text}`)),
    );
    this.#others.replaceChildren(
      ...results.filter((one) => !DONE.includes(one.outcome)).map(renderOther),
    );
    this.#actions.replaceChildren(...this.#buttons(results));
  }

  #buttons(results) {
    if (this.running) return [button("Stop", () => (this.#stopped = true))];
    if (this.answered < this.run.jobs)
      return [button(this.answered ? "Continue" : "Start", () => this.perform(), "button.button.primary")];
    const missed = results.some((one) => one.outcome === "unreachable");
    return [button(missed ? "Retry unreachable jobs" : "Check all again", () => this.perform(0))];
  }
}

const renderOther = ({ job_key: key, outcome, detail }) =>
  el(
    "li",
    {},
    el("a", { href: jobHref(key) }, key),
    el("p.meta", {}, capitalizeSentence(detail ? `${outcome}: ${detail}` : outcome)),
  );

const countJobs = (number) => `${number.toLocaleString()} ${number === 1 ? "job" : "jobs"}`;
