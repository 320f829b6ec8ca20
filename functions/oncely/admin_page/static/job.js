// One job: headline, facts, repairs, timeline and contract.
import { ApiError, job as load } from "./api.js";
import { renderContract } from "./contract.js";
import { announce, button, el } from "./elements.js";
import {
  capitalizeSentence,
  externalLink,
  relativeTime,
  searchHref,
  statusBadge,
  timeElement,
} from "./format.js";
import { comparison, openRepairDialog } from "./repair-dialog.js";
import { renderTimeline } from "./timeline.js";

const READ_ONLY_NOTICE =
  "You have read-only access. To repair this job, give its key to an operator.";

export async function showJob({ name: key }, context) {
  try {
    const job = await load(key, context.signal);
    return { title: `${job.status_label}: ${job.job_key}`, nodes: [renderJob(job, context)] };
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return renderNotFound(key);
    throw error;
  }
}

function renderNotFound(key) {
  const nodes = [
    el("h1", { tabindex: "-1" }, "Job not found"),
    el("p", {}, "No job has the key ", el("bdi.code", {}, key), "."),
    el("p", {}, "Check the key for typos, or search by order or customer above."),
  ];
  return { title: "Job not found", nodes };
}

/** The view of a job. After a repair it is rendered again, with the result. */
function renderJob(job, context, result = null) {
  const rerender = (response, label) => {
    const next = renderJob(withRejectsOf(job, response.job), context, { ...response, label });
    article.replaceWith(next);
    next.querySelector(".outcome h2").focus();
  };
  const article = el(
    "article.job",
    {},
    renderHeader(job, context, result),
    renderFacts(job),
    renderTimeline(job),
    el("div.side", {}, renderRepairs(job, context, rerender), job.contract ? renderContractSection(job) : null),
    renderStored(job),
  );
  return article;
}

/** A repaired job. The repair does not read the rejected messages again. */
function withRejectsOf(before, job) {
  const rejects = before.timeline.filter((entry) => entry.kind === "reject");
  const timeline = [...job.timeline, ...rejects].sort((one, other) => (one.at < other.at ? -1 : 1));
  return { ...job, timeline, timeline_error: before.timeline_error };
}

function renderHeader(job, { reload }, result) {
  const since = [" since ", timeElement(job.since), " (", relativeTime(job.since), ")"];
  const status = el("span", {}, statusBadge(job), since);
  const refresh = button("Refresh", reload, "button.plain", { id: "refresh" });
  return el(
    "header",
    {},
    el(
      "div.heading",
      {},
      el("p.key", {}, el("bdi", {}, job.job_key)),
      el("div.actions", {}, copyButton("Copy key", job.job_key), refresh),
    ),
    el("h1", { tabindex: "-1" }, job.headline),
    job.next_step ? el("p.next-step", {}, job.next_step) : null,
    el("p.status-line", {}, status),
    result ? renderRepairResult(result) : null,
  );
}

function renderRepairResult({ label, job, ...details }) {
  const result = details.needs_second_operator ? "waiting for a second operator" : "done";
  return el(
    "section.outcome",
    {},
    el("h2", { tabindex: "-1" }, `${label}: ${result}`),
    comparison(details, job, "Recorded status"),
  );
}

function renderFacts(job) {
  const reference = job.provider_ref && [
    el("span.code", {}, job.provider_ref),
    " ",
    copyButton("Copy", job.provider_ref, "Copy provider reference"),
  ];
  const exactTime = (stamp) =>
    stamp && [timeElement(stamp, { exact: true }), " (", relativeTime(stamp), ")"];
  const rows = [
    ["Order or record", job.subject && searchLink(job.subject)],
    ["Customer", job.customer_id && searchLink(job.customer_id)],
    ["Provider reference", reference],
    ["Open in", consoleLinks(job)],
    ["Request ID", job.request_id && el("span.code", {}, job.request_id)],
    ["Runs", job.runs && `${job.runs} (${job.attempts} may have called the provider)`],
    ["Last error", job.last_error && foldedText(job.last_error)],
    ["Last claimed", exactTime(job.claimed_at)],
    ["Created", exactTime(job.created_at)],
  ];
  rows.push(["Runs at", exactTime(job.run_at)], ["Next check", exactTime(job.next_check_at)]);
  if (job.amount_label) rows.unshift(["Amount", job.amount_label]);
  rows.push(["Expires", exactTime(job.expires_at)]);
  // A missing reference is information, too: nothing was prepared at the provider.
  const shown = rows.filter(([label, value]) => value || label === "Provider reference");
  return el("section.facts", {}, el("h2", {}, "Details"), el("dl", {}, shown.map(renderFact)));
}

/** What the job made, in the console of its provider, and its row in that of AWS. */
function consoleLinks(job) {
  const links = job.links.map(({ provider, reference, url }) => externalLink(url, provider, reference));
  if (job.row_url) links.push(externalLink(job.row_url, "AWS", "row"));
  return links.length ? el("ul.links", {}, links.map((link) => el("li", {}, link))) : null;
}

/** Raw text of an error, which the headline tells in other words. */
const foldedText = (text) =>
  el("details", {}, el("summary", {}, "Show"), el("p.raw", {}, text));

const searchLink = (text) => el("a", { href: searchHref(text) }, text);

const renderFact = ([label, value]) =>
  el("div", {}, el("dt", {}, label), value ? el("dd", {}, value) : el("dd.none", {}, "none"));

function renderRepairs(job, { user, reload }, rerender) {
  const options = el(
    "ul",
    {},
    // Allowed repairs first, otherwise in the server's order.
    job.repairs
      .toSorted((one, other) => Number(other.allowed) - Number(one.allowed))
      .map((option) =>
        renderOption(option, () => openRepairDialog({ job, option, reload, done: rerender })),
      ),
  );
  return el(
    "section.repairs",
    {},
    el("h2", {}, "Repairs"),
    user.can_repair ? options : el("p", {}, READ_ONLY_NOTICE),
  );
}

function renderOption(option, open) {
  const [id, reasonId] = [`repair-${option.repair}`, `reason-${option.repair}`];
  const attributes = { id, disabled: !option.allowed, "aria-describedby": reasonId };
  const reason = capitalizeSentence(option.reason);
  return el(
    "li",
    {},
    button(option.label, open, "button.button", attributes),
    el("p.reason", { id: reasonId }, option.allowed ? reason : `Not available. ${reason}`),
  );
}

function renderContractSection(job) {
  const summary = el("summary", {}, el("h2", {}, "Contract"));
  return el("details.contract", {}, summary, renderContract(job.contract));
}

function renderStored(job) {
  const jsonBlock = (value) => el("pre", { tabindex: "0" }, JSON.stringify(value, null, 2));
  return el(
    "details.stored",
    {},
    el("summary", {}, el("h2", {}, "Stored message and result")),
    el("h3", {}, "Message"),
    jsonBlock(job.message),
    el("h3", {}, "Result"),
    job.result ? jsonBlock(job.result) : el("p.none", {}, "none"),
  );
}

function copyButton(label, text, ariaLabel = null) {
  async function copy({ currentTarget: pressed }) {
    await navigator.clipboard.writeText(text);
    pressed.textContent = "Copied";
    announce("Copied");
    setTimeout(() => (pressed.textContent = label), 1500);
  }
  return button(label, copy, "button.plain", { "aria-label": ariaLabel });
}
