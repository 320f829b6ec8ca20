// The timeline of a job: how long each status lasted, and what happened, by whom and when.
import { el, joinWithDots } from "./elements.js";
import { capitalizeSentence, timeElement } from "./format.js";

// More do not fit. Keep the last ones, which show the current state.
const MAX_PERIODS = 12;

export function renderTimeline(job) {
  const periods = statusPeriods(job);
  return el(
    "section.history",
    {},
    el("h2", {}, "Timeline"),
    el("p.meta", {}, summary(job, periods)),
    job.timeline_error ? el("p.error", {}, capitalizeSentence(job.timeline_error)) : null,
    el("ol.periods", { "aria-label": "How long each status lasted" }, periods.map(renderPeriod)),
    el("ol.timeline", {}, job.timeline.map((entry, index) => renderEntry(entry, job.timeline[index - 1]))),
  );
}

function summary(job, periods) {
  const begin = new Date(job.created_at);
  const last = periods.at(-1);
  const took = last.open ? null : `${formatDuration(last.since - begin)} from start to end`;
  const count = (kind, one, many) => {
    const number = job.timeline.filter((entry) => entry.kind === kind).length;
    return number ? `${number} ${number === 1 ? one : many}` : null;
  };
  return joinWithDots(
    took,
    job.runs ? `${job.runs} ${job.runs === 1 ? "run" : "runs"}, ${job.attempts} may have called the provider` : null,
    count("operator", "operator action", "operator actions"),
    count("reject", "rejected message", "rejected messages"),
    count("provider", "provider event", "provider events"),
  );
}

/** The statuses that the job went through, each with its start and its length. */
function statusPeriods(job) {
  const periods = [];
  for (const { at, to_status: status, from_status: before } of job.timeline) {
    if (!status) continue;
    // The evidence may begin late. Its first status then counts from the row's creation.
    if (!periods.length && before) periods.push({ status: before, since: new Date(job.created_at) });
    if (status !== periods.at(-1)?.status) periods.push({ status, since: new Date(at) });
  }
  if (!periods.length) periods.push({ status: job.status, since: new Date(job.since) });
  periods.forEach((period, index) => (period.until = periods[index + 1]?.since));
  const last = periods.at(-1);
  if (!["finished", "failed", "cancelled"].includes(last.status)) {
    last.until = new Date();
    last.open = true;
  }
  return periods.slice(-MAX_PERIODS);
}

function renderPeriod({ status, since, until, open }) {
  const length = until ? Math.max(0, until - since) : 0;
  const node = el(
    `li.${status}`,
    {},
    el("span", {}, status.replaceAll("_", " ")),
    until ? el("small", {}, formatDuration(length), open ? " so far" : null) : null,
  );
  // Seconds and days have to fit next to each other, so the scale is logarithmic.
  node.style.flexGrow = String(1 + Math.log2(1 + length / 1000));
  return node;
}

function renderEntry(entry, previous) {
  const { from_status: before, to_status: after } = entry;
  const changed = before && before !== after;
  const status = changed ? `${statusText(before)} → ${statusText(after)}` : after && statusText(after);
  const waited = previous ? `${formatDuration(new Date(entry.at) - new Date(previous.last_at ?? previous.at))} later` : null;
  // The reason of a claim is the number of its run.
  const chip = { run: entry.reason, operator: "operator", reject: "rejected", provider: entry.mark }[entry.kind];
  const repeated = [
    ` ${entry.count} times, last `,
    entry.last_at && timeElement(entry.last_at, { exact: true }),
  ];
  return el(
    `li.${entry.kind}`,
    {},
    timeElement(entry.at, { exact: true }),
    el(
      "div",
      {},
      el(
        "p",
        {},
        el("strong", {}, capitalizeSentence(entry.event_label)),
        chip ? el("span.chip", {}, chip) : null,
        entry.count > 1 ? repeated : null,
      ),
      entry.reason && entry.kind !== "run" ? el("p.reason", {}, entry.reason) : null,
      el("p.meta", {}, joinWithDots(entry.actor, status, waited)),
    ),
  );
}

const statusText = (status) => status.replaceAll("_", " ");

/** A duration in the largest unit that tells enough: "820 ms", "3.4 s", "12 min", "5 h", "3 days". */
export function formatDuration(ms) {
  const value = Math.max(0, ms);
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 60_000) return `${(value / 1000).toFixed(1)} s`;
  if (value < 3_600_000) return `${Math.round(value / 60_000)} min`;
  if (value < 48 * 3_600_000) return `${Math.round(value / 3_600_000)} h`;
  return `${Math.round(value / 86_400_000)} days`;
}
