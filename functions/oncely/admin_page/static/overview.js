// The overview: what needs attention now, and the outcomes of the last 24 hours or 7 days.
import { metrics, overview, SignedOutError } from "./api.js";
import { barChart, figuresTable, formatNumber, formatSeconds } from "./charts.js";
import { countsStrip } from "./counts.js";
import { button, el, errorBox, replaceKeepingFocus } from "./elements.js";
import { ageElement, capitalizeSentence, jobHref, timeElement } from "./format.js";
import { heldLines } from "./gates.js";

const REFRESH_MS = 60_000;
const WINDOWS = {
  "24h": { hours: 24, label: "24 hours" },
  "7d": { hours: 168, label: "7 days" },
};
const CHARTS = {
  finished: { title: "Finished" },
  failed: { title: "Failed" },
  unknown: { title: "Became unknown" },
  needs_review: { title: "Sent to review" },
  duplicates: { title: "Duplicates" },
  rejected: { title: "Rejects" },
  dead_letters: { title: "Dead letters" },
  oldest_unresolved_seconds: { title: "Oldest unresolved", format: formatSeconds },
};
const NO_REVIEWS =
  "No job needs review. Jobs appear here, grouped by reason, when their outcome cannot be determined automatically.";
const CIRCUITS = { closed: "Closed", open: "Open", half_open: "Half open" };

// Keep the reader's choices across refreshes and when returning from a job.
let refreshes = true;
let showsTable = false;

export async function showOverview({ name }, { signal, reload }) {
  const range = Object.hasOwn(WINDOWS, name) ? name : "24h";
  const body = el("div.overview", {}, ...renderBody(await load(signal), range));
  const counts = el("div", {}, countsStrip(signal));
  const updated = el("p.meta", { id: "updated" }, ...describeUpdate());

  async function refresh() {
    try {
      const found = await load(signal);
      replaceKeepingFocus(body, ...renderBody(found, range));
      replaceKeepingFocus(counts, countsStrip(signal));
      updated.replaceChildren(...describeUpdate());
    } catch (error) {
      if (error instanceof SignedOutError) return reload();
      if (!signal.aborted) updated.replaceChildren("Not updated. ", capitalizeSentence(error.message));
    }
  }
  const resume = refreshWhileVisible(refresh, signal);
  return { title: "Overview", nodes: [renderHeading(updated, resume, reload), counts, body] };
}

/** Both parts. If one cannot be read, the other is shown, with the error in its place. */
async function load(signal) {
  const [state, charts] = await Promise.allSettled([overview(signal), metrics(signal)]);
  const errors = [state, charts].map((one) => one.reason).filter(Boolean);
  const signedOut = errors.find((error) => error instanceof SignedOutError);
  if (signedOut ?? errors.length === 2) throw signedOut ?? errors[0];
  return { state, charts };
}

/** Refresh each minute while the page is visible. Returns what starts it again. */
function refreshWhileVisible(refresh, signal) {
  let timer = null;
  let last = Date.now();
  const isDue = () => refreshes && document.visibilityState === "visible" && !signal.aborted;
  async function run() {
    if (!isDue()) return;
    last = Date.now();
    await refresh();
    resume();
  }
  function resume() {
    clearTimeout(timer);
    if (isDue()) timer = setTimeout(run, Math.max(0, last + REFRESH_MS - Date.now()));
  }
  document.addEventListener("visibilitychange", resume, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  resume();
  return resume;
}

function renderHeading(updated, resume, reload) {
  const box = el("input", { type: "checkbox", id: "auto-refresh", checked: refreshes });
  box.addEventListener("change", () => {
    refreshes = box.checked;
    resume();
  });
  return el(
    "div.heading",
    {},
    el("h1", { tabindex: "-1" }, "Overview"),
    el(
      "div.actions",
      {},
      updated,
      el("label.check", {}, box, "Refresh every minute"),
      button("Refresh", reload, "button.plain", { id: "refresh" }),
    ),
  );
}

const describeUpdate = () => ["Updated ", timeElement(new Date().toISOString(), { exact: true })];

function renderBody({ state, charts }, range) {
  const now = state.value;
  const held = now ? heldLines(now) : [];
  return [
    held.length ? el("section.held", { "aria-label": "Jobs on hold" }, held) : null,
    el("section", { "aria-labelledby": "outcomes" }, renderRange(range), renderCharts(charts, range)),
    now
      ? el("div.columns", {}, renderReviews(now), renderQueues(now.queues), renderProviders(now.providers))
      : errorBox(capitalizeSentence(state.reason.message)),
  ].filter(Boolean);
}

function renderRange(chosen) {
  const links = Object.entries(WINDOWS).map(([name, { label }]) =>
    el(
      "a",
      { id: `range-${name}`, href: `#/overview/${name}`, "aria-current": name === chosen ? "true" : null },
      label,
    ),
  );
  return el(
    "div.range",
    {},
    el("h2", { id: "outcomes" }, `Last ${WINDOWS[chosen].label}`),
    el("nav", { "aria-label": "Time range" }, links),
  );
}

function renderCharts(found, range) {
  if (!found.value) return errorBox(capitalizeSentence(found.reason.message));
  const { hours: all, series, windows } = found.value;
  const { hours: count } = WINDOWS[range];
  const hours = all.slice(-count);
  const summary = windows[`${count}h`];
  const charts = Object.entries(CHARTS).map(([name, chart]) => ({
    name,
    ...chart,
    hours,
    values: series[name].slice(-count),
    total: summary.totals[name],
  }));
  const details = el(
    "details",
    { open: showsTable },
    el("summary", { id: "figures" }, "Show the figures as a table"),
    figuresTable(charts, hours),
  );
  details.addEventListener("toggle", () => {
    showsTable = details.open;
  });
  return el("div", {}, renderRates(summary), el("div.charts", {}, charts.map(barChart)), details);
}

function renderRates({ ended_per_hour: rate, duplicate_share: share }) {
  const percent = { style: "percent", maximumFractionDigits: 1 };
  return el(
    "dl.rates",
    {},
    el("div", {}, el("dt", {}, "Throughput"), el("dd", {}, `${formatNumber(rate)} jobs per hour`)),
    el(
      "div",
      {},
      el("dt", {}, "Duplicate rate"),
      el("dd", {}, share === null ? "no messages" : `${share.toLocaleString(undefined, percent)} of messages`),
    ),
  );
}

function renderReviews({ reviews, reviews_read: read, reviews_partial: isPartial }) {
  const note = isPartial ? el("p.meta", {}, `The largest groups among the newest ${formatNumber(read)} jobs.`) : null;
  const list = el("ol.reasons", {}, reviews.map(renderReview));
  return renderPart("reviews", "Reviews by reason", reviews.length ? list : el("p.none", {}, NO_REVIEWS), note);
}

function renderReview({ cause, job_type: type, count, newest, since }, index) {
  return el(
    "li",
    {},
    el("span.number", {}, formatNumber(count)),
    el(
      "div",
      {},
      el("p", {}, cause),
      el(
        "p.meta",
        {},
        el("a", { id: `review-list-${index}`, href: `#/list/needs_review?type=${encodeURIComponent(type)}` }, type),
        " · newest ",
        el("a", { id: `review-job-${index}`, href: jobHref(newest) }, newest),
        ", for ",
        ageElement(since),
      ),
    ),
  );
}

function renderQueues(queues) {
  const rows = queues.map(({ queue, waiting, in_flight: taken, delayed }) => [
    queue,
    ...[waiting, taken, delayed].map(formatNumber),
  ]);
  return renderPart("queues", "Queues", renderTable(["Queue", "Waiting", "In flight", "Delayed"], rows));
}

function renderProviders(providers) {
  const rows = providers.map(({ name, paused, gates }) => [
    name,
    // A pause stops effects and never lookups.
    ...gates.map((gate) => renderGate(gate, gate.group === "effects" ? paused : null)),
  ]);
  return renderPart("providers", "Providers", renderTable(["Provider", "Effects", "Lookups"], rows));
}

/** The state as a mark and a word, and the rate. Color alone carries no meaning. */
function renderGate({ circuit, since, per_second: rate }, paused) {
  const [style, word, from] = paused ? ["paused", "Paused", paused.at] : [circuit, CIRCUITS[circuit], since];
  return [
    el(`span.state.${style}`, {}, word),
    el("span.meta", {}, from ? ageElement(from) : null, from ? " · " : null, rate ? `${formatNumber(rate)}/s` : "no limit"),
  ];
}

function renderPart(id, title, ...content) {
  return el(`section.part.${id}`, { "aria-labelledby": id }, el("h2", { id }, title), ...content);
}

/** A table whose first column names the row. */
function renderTable(head, rows) {
  return el(
    "table",
    {},
    el("thead", {}, el("tr", {}, head.map((name) => el("th", { scope: "col" }, name)))),
    el(
      "tbody",
      {},
      rows.map(([name, ...cells]) =>
        el("tr", {}, el("th", { scope: "row" }, name), cells.map((cell) => el("td", {}, cell))),
      ),
    ),
  );
}
