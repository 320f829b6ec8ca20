// Rejected messages, and the reports of daily audits.
import { audit, audits, rejects } from "./api.js";
import { button, el, joinWithDots } from "./elements.js";
import { ageElement, capitalizeSentence, externalLink, jobHref, timeElement } from "./format.js";
import { openRejectDialog } from "./reject-dialog.js";

const NO_REJECTS =
  "No message was rejected in the last 7 days. Messages appear here when they are invalid or conflict with their job.";
const NO_AUDITS =
  "There are no reports. Reports appear here once you turn on the daily audit (daily_payment_audit). Until then, run: oncely audit payments";
const RESEND =
  "Fix the producer. An operator can correct a message and resend it, once. One that cannot be read has no job: send a corrected one with oncely send.";

export async function showReport({ name }, context) {
  if (name === "rejects") return showRejects(context);
  return name === "audits" ? showAudits(context) : showAudit(name, context);
}

async function showRejects({ user, signal, reload }) {
  const { rejects: found } = await rejects(signal);
  const list = el("ol.jobs", {}, found.map((one) => renderReject(one, user.can_repair, reload)));
  return renderView("Rejected messages", reload, found.length ? [el("p", {}, RESEND), list] : [el("p.empty", {}, NO_REJECTS)]);
}

function renderReject(one, canResend, reload) {
  const link = one.job_key ? el("a", { href: jobHref(one.job_key) }, one.job_key) : null;
  const resent = one.resent ? "resent" : null;
  const edit = button("Edit and resend…", () => openRejectDialog(one, reload), "button.plain", {
    "aria-label": `Edit and resend ${one.name}`,
  });
  return el(
    "li.reject",
    {},
    el("p.when", {}, timeElement(one.at), el("small", {}, ageElement(one.at), " ago")),
    el(
      "div",
      {},
      el("p.cause", {}, capitalizeSentence(one.reason)),
      el("p.meta", {}, link, link ? " · " : null, joinWithDots(one.queue, one.name, resent)),
      el("details", {}, el("summary", {}, "Message"), el("pre", { tabindex: "0" }, one.body)),
    ),
    canResend && one.job_key && !one.resent ? edit : null,
  );
}

async function showAudits({ signal, reload }) {
  const { audits: found } = await audits(signal);
  const list = el("ol.jobs", {}, found.map(renderAudit));
  return renderView("Payment audits", reload, found.length ? [list] : [el("p.empty", {}, NO_AUDITS)]);
}

function renderAudit(one) {
  const result = one.differences ? countDifferences(one.differences) : "No differences";
  const link = el("a", { href: `#/report/${encodeURIComponent(one.name)}` }, result);
  const until = [" until ", timeElement(one.until)];
  return el("li.entry", {}, timeElement(one.since), el("div.what", {}, link, el("p.meta", {}, until)));
}

async function showAudit(name, { signal, reload }) {
  const { lines } = await audit(name, signal);
  const differences = lines.filter((line) => line.record === "difference");
  const totals = lines.filter((line) => line.record === "total");
  const title = differences.length ? countDifferences(differences.length) : "No differences";
  return renderView(title, reload, [
    el("ul.totals", {}, totals.map((one) => el("li", {}, describeTotal(one)))),
    el("ol.jobs", {}, differences.map(renderDifference)),
  ]);
}

const countDifferences = (number) => `${number} ${number === 1 ? "difference" : "differences"}`;

function describeTotal({ provider, currency, charges, jobs, not_ours: others }) {
  const sum = ({ count, amount }) => `${count} (${formatMoney(amount, currency)})`;
  return `${provider}: charged ${sum(charges)}, our jobs ${sum(jobs)}, not ours ${sum(others)}`;
}

function renderDifference(one) {
  const money = one.theirs ?? one.ours;
  const differs = one.theirs && one.ours && one.theirs.amount !== one.ours.amount;
  return el(
    "li.entry",
    {},
    one.at ? timeElement(one.at) : null,
    el(
      "div.what",
      {},
      el("p", {}, capitalizeSentence(one.label)),
      el(
        "p.meta",
        {},
        one.job_key ? el("a", { href: jobHref(one.job_key) }, one.job_key) : null,
        " · ",
        one.provider,
        one.provider_ids.map((id) => [" · ", providerId(one, id)]),
      ),
    ),
    el(
      "div.sum",
      {},
      money ? el("span.amount", {}, formatMoney(money.amount, money.currency)) : null,
      differs ? el("span", {}, `ours ${formatMoney(one.ours.amount, one.ours.currency)}`) : null,
    ),
  );
}

const providerId = ({ provider, provider_urls: urls = {} }, id) =>
  urls[id] ? externalLink(urls[id], provider, id) : el("bdi", {}, id);

/** An amount in minor units, with as many decimals as its currency has. */
function formatMoney(amount, currency) {
  const format = new Intl.NumberFormat(undefined, { style: "currency", currency });
  return format.format(amount / 10 ** format.resolvedOptions().maximumFractionDigits);
}

function renderView(title, reload, nodes) {
  const refresh = button("Refresh", reload, "button.plain", { id: "refresh" });
  const heading = el(
    "div.heading",
    {},
    el("h1", { tabindex: "-1" }, title),
    el("div.actions", {}, refresh),
  );
  return { title, nodes: [heading, ...nodes], announcement: title };
}
