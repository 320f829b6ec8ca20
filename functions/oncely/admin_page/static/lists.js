// Lists of jobs by status, page by page, and search results.
import { exportJobs, find, jobs, lookup, resolve } from "./api.js";
import { bulkSelection } from "./bulk.js";
import { countsStrip } from "./counts.js";
import { heldBanner } from "./gates.js";
import { announce, button, el, errorBox, joinWithDots } from "./elements.js";
import { filters, timeWindow } from "./filters.js";
import { ageElement, capitalizeSentence, jobHref, statusBadge, timeElement } from "./format.js";

const LISTS = {
  needs_review: {
    title: "Needs review",
    empty:
      "No job needs review. Jobs appear here, and operators are alerted, when their outcome cannot be determined automatically.",
  },
  unknown: {
    title: "Outcome unknown",
    empty:
      "No job has an unknown outcome. Jobs appear here when a provider’s response was ambiguous. The reconciler then looks up the outcome.",
  },
  failed: {
    title: "Failed",
    empty:
      "No job has failed. Jobs appear here when the provider declines them.",
  },
  cancelled: {
    title: "Cancelled",
    empty:
      "No job was cancelled. Jobs appear here when an operator cancels them before anything is done.",
  },
  in_progress: {
    title: "In progress",
    empty:
      "No job is in progress. Jobs appear here from their first message until their outcome is known.",
  },
  finished: {
    title: "Done",
    empty:
      "No job finished in the last 24 hours. Jobs appear here a few minutes after they finish. For older jobs, choose another time range. Search finds any job immediately.",
  },
};
const NO_MATCH = "No job matches these filters. Widen them, or search by order or customer.";
const PAGE_SIZE = 25;
// These filters are applied after the rows are read, so a page may be nearly empty.
const FILTERED_PAGE_SIZE = 100;
const pageSize = ({ error, customer }) => (error || customer ? FILTERED_PAGE_SIZE : PAGE_SIZE);

export async function showList({ name, query }, { user, signal, reload }) {
  const status = Object.hasOwn(LISTS, name) ? name : "needs_review";
  const { title, empty } = LISTS[status];
  const typed = { error: query.get("error"), customer: query.get("customer") };
  const filter = { status, type: query.get("type"), ...typed, ...timeWindow(query) };
  const strip = [heldBanner(signal), countsStrip(signal)];
  const page = await jobs({ ...filter, limit: pageSize(filter) }, signal);
  // A page may be empty and have a cursor: the server stops after many jobs of another type.
  const hasJobs = page.jobs.length || page.cursor;
  const isFiltered = ["type", "error", "customer", "from", "to"].some((name) => filter[name]);
  const emptyText = isFiltered ? NO_MATCH : empty;
  const selection = hasJobs ? bulkSelection(user, filter) : null;
  const nodes = [
    ...strip,
    renderHeading(title, reload, ...(user.can_repair ? exportButtons(filter) : [])),
    filters(status, query, user.job_types),
    renderUnreadable(page.unreadable),
    selection?.bar,
    hasJobs ? renderList(page, filter, selection) : page.unreadable.length ? null : el("p.empty", {}, emptyText),
  ];
  const announcement = hasJobs ? countShown(page.jobs.length, page.cursor) : emptyText;
  return { title, nodes, announcement };
}

export async function showSearchResults({ name: text }, { signal, reload }) {
  const { jobs: found, unreadable, notes, verdicts } = await findAnywhere(text, signal);
  const title = `Results for “${text}”`;
  const nothing = !found.length && !unreadable.length;
  // An exact hit opens the job. An order or a customer gets a verdict first.
  const [only, ...others] = found;
  const isExact = only && !others.length && !["order", "customer"].includes(only.matched_by);
  if (isExact && !unreadable.length) location.replace(jobHref(only.job_key));
  const nodes = [
    renderHeading(title, reload),
    renderUnreadable(unreadable),
    nothing ? renderSearchTips(notes) : renderVerdicts(verdicts),
    ...(nothing ? [] : groupByVerdict(found, verdicts).map((jobs) => renderList({ jobs }))),
  ];
  return {
    title,
    nodes,
    announcement: nothing ? "No jobs found" : `${countJobs(found.length)} found`,
  };
}

/** One sentence for each order, and what it rests on. */
function renderVerdicts(verdicts) {
  if (!verdicts.length) return null;
  const style = (one) => (one.is_duplicate ? "duplicate" : one.certain ? "certain" : "open");
  return el(
    "section.verdicts",
    { "aria-label": "Verdict" },
    verdicts.flatMap((one) => [
      el(`p.verdict.${style(one)}`, {}, one.sentence),
      one.charge_keys.length ? lookupButton(one) : null,
    ]),
    el("p.meta", {}, verdicts[0].basis),
  );
}

/** Ask the provider now: our records know no refund, dispute or charge that others made. */
function lookupButton(verdict) {
  const answers = el("ul.answers");
  async function ask() {
    answers.replaceChildren(el("li", {}, "Asking the provider…"));
    const asked = verdict.charge_keys.map((key) =>
      lookup(key).then(
        ({ provider, outcome, detail }) => `${provider}: ${outcome}: ${detail}`,
        (error) => error.message,
      ),
    );
    const lines = await Promise.all(asked);
    answers.replaceChildren(...lines.map((line) => el("li", {}, capitalizeSentence(line))));
    announce(lines.join(". "));
  }
  return el("div.lookup", {}, button(`Look up ${verdict.about} at the provider`, ask, "button.plain"), answers);
}

/** The jobs of each order together, charges before what follows them. */
function groupByVerdict(found, verdicts) {
  const byKey = new Map(found.map((job) => [job.job_key, job]));
  const groups = verdicts.map((one) => one.job_keys.map((key) => byKey.get(key)).filter(Boolean));
  const grouped = new Set(groups.flat());
  return [...groups, found.filter((job) => !grouped.has(job))].filter((group) => group.length);
}

/** Search our own rows, and only then the providers, which takes a second or two. */
async function findAnywhere(text, signal) {
  const own = await find(text, signal);
  return own.jobs.length || own.unreadable.length ? own : resolve(text, signal);
}

/** Rows that the server cannot read, each with the reason. */
function renderUnreadable(rows) {
  if (!rows.length) return null;
  return el(
    "div.error.unreadable",
    { role: "alert" },
    el("p", {}, `${countJobs(rows.length)} cannot be shown. An operator has to fix the row.`),
    el(
      "ul",
      {},
      rows.map((row) => el("li", {}, el("bdi", {}, capitalizeSentence(row.reason)))),
    ),
  );
}

function renderSearchTips(notes) {
  const tips = [
    "the order, with or without its prefix: 18452 or order_18452",
    "the customer id in your own system, or their email",
    "a provider id: a payment, charge, refund, dispute or customer",
    "the complete job key, as alerts and logs show it",
  ];
  return el(
    "div.empty",
    {},
    el("p", {}, `No jobs found. ${notes.join(" ")}`),
    el("p", {}, "Check the text for typos, or search by:"),
    el(
      "ul",
      {},
      tips.map((tip) => el("li", {}, tip)),
    ),
    el("p", {}, "A job whose message was never sent does not appear here."),
  );
}

function renderHeading(title, reload, ...actions) {
  const refresh = button("Refresh", reload, "button.plain", { id: "refresh" });
  return el(
    "div.heading",
    {},
    el("h1", { tabindex: "-1" }, title),
    el("div.actions", {}, ...actions, refresh),
  );
}

function renderList(page, filter, selection = null) {
  const renderItem = (job) => renderListItem(job, selection?.tick(job));
  const list = el("ol.jobs", {}, page.jobs.map(renderItem));
  const more = el("div.more");
  const renderMore = (cursor) => {
    const label = list.children.length ? "Show more" : "No matches yet. Keep searching";
    more.replaceChildren(...(cursor ? [button(label, () => next(cursor))] : []));
  };
  async function next(cursor) {
    more.setAttribute("aria-busy", "true");
    try {
      const rest = await jobs({ ...filter, limit: pageSize(filter), cursor });
      const added = rest.jobs.map(renderItem);
      const unreadable = renderUnreadable(rest.unreadable);
      list.append(...added);
      if (unreadable) list.after(unreadable);
      renderMore(rest.cursor);
      (added[0]?.querySelector("a") ?? more.querySelector("button"))?.focus();
      announce(countShown(list.children.length, rest.cursor));
    } catch (error) {
      more.replaceChildren(
        errorBox(
          capitalizeSentence(error.message),
          button("Try again", () => next(cursor)),
        ),
      );
    } finally {
      more.removeAttribute("aria-busy");
    }
  }
  renderMore(page.cursor);
  return el("div", {}, list, more);
}

function renderListItem(job, tick = null) {
  const match = job.matched_by ? `found by ${job.matched_by}` : null;
  return el(
    tick ? "li.entry.tickable" : "li.entry",
    {},
    tick,
    el("p.when", {}, timeElement(job.since), el("small", {}, ageElement(job.since), " ago")),
    el(
      "div.what",
      {},
      el("a", { href: jobHref(job.job_key) }, job.headline),
      el("p.meta", {}, joinWithDots(job.job_key, job.customer_id, match)),
    ),
    el(
      "div.sum",
      {},
      job.amount_label ? el("span.amount", {}, job.amount_label) : null,
      statusBadge(job),
    ),
  );
}

const exportButtons = (filter) => ["csv", "json"].map((form) => exportButton(filter, form));

function exportButton(filter, form) {
  async function save({ currentTarget: pressed }) {
    try {
      const { file, truncated } = await exportJobs({ ...filter, format: form });
      const url = URL.createObjectURL(file);
      el("a", { href: url, download: `oncely-${filter.status}.${form}` }).click();
      URL.revokeObjectURL(url);
      const incomplete =
        "The export may be incomplete: it hit the size or scan limit. Narrow the filters.";
      if (truncated) pressed.after(errorBox(incomplete));
      announce("List downloaded");
    } catch (error) {
      pressed.after(errorBox(capitalizeSentence(error.message)));
    }
  }
  return button(`Download ${form.toUpperCase()}`, save, "button.plain", { id: `download-${form}` });
}

const countJobs = (number) => `${number} ${number === 1 ? "job" : "jobs"}`;
const countShown = (number, more) =>
  `${countJobs(number)} shown${more ? ", there are more" : ""}`;
