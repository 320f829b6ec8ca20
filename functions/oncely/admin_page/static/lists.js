// Lists of jobs by status, page by page, and search results.
import { exportJobs, find, jobs } from "./api.js";
import { countsStrip } from "./counts.js";
import { announce, button, el, errorBox, joinWithDots } from "./elements.js";
import { filters, timeWindow } from "./filters.js";
import { capitalizeSentence, jobHref, statusBadge, timeElement } from "./format.js";

const LISTS = {
  needs_review: {
    title: "Needs review",
    empty:
      "Nothing needs review. Jobs appear here when their outcome cannot be determined automatically. Operators are alerted then.",
  },
  unknown: {
    title: "Outcome unknown",
    empty:
      "No outcome is unknown. Jobs appear here when a provider’s response was ambiguous. The reconciler then looks up the outcome.",
  },
  failed: {
    title: "Failed",
    empty:
      "Nothing has failed. Jobs appear here when the provider declines them.",
  },
  in_progress: {
    title: "In progress",
    empty:
      "Nothing is in progress. Jobs appear here from their first message until their outcome is known.",
  },
  finished: {
    title: "Done",
    empty:
      "No job finished in the last 24 hours. Jobs appear here a few minutes after they finish. For older jobs, choose another time range. Search finds any job immediately.",
  },
};
const NO_MATCH = "No job matches these filters. Widen them, or search by order or customer.";
const PAGE_SIZE = 25;

export async function showList({ name, query }, { user, signal, reload }) {
  const status = Object.hasOwn(LISTS, name) ? name : "needs_review";
  const { title, empty } = LISTS[status];
  const filter = { status, type: query.get("type"), ...timeWindow(query) };
  const strip = countsStrip(signal);
  const page = await jobs({ ...filter, limit: PAGE_SIZE }, signal);
  // A page may be empty and have a cursor: the server stops after many jobs of another type.
  const hasJobs = page.jobs.length || page.cursor;
  const emptyText = filter.type || filter.from || filter.to ? NO_MATCH : empty;
  const nodes = [
    strip,
    renderHeading(title, reload, user.can_repair ? exportButton(filter) : null),
    filters(status, query, user.job_types),
    renderUnreadable(page.unreadable),
    hasJobs ? renderList(page, filter) : page.unreadable.length ? null : el("p.empty", {}, emptyText),
  ];
  const announcement = hasJobs ? countShown(page.jobs.length, page.cursor) : emptyText;
  return { title, nodes, announcement };
}

export async function showSearchResults({ name: text }, { signal, reload }) {
  const { jobs: found, unreadable } = await find(text, signal);
  const title = `Results for “${text}”`;
  const nothing = !found.length && !unreadable.length;
  const nodes = [
    renderHeading(title, reload),
    renderUnreadable(unreadable),
    nothing ? renderSearchTips() : renderList({ jobs: found, cursor: null }),
  ];
  return {
    title,
    nodes,
    announcement: nothing ? "No jobs found" : `${countJobs(found.length)} found`,
  };
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

function renderSearchTips() {
  const tips = [
    "the order, with or without its prefix: 18452 or order_18452",
    "the customer, as your own system names it",
    "the provider reference, as the provider shows it",
    "the complete job key, as alerts and logs show it",
  ];
  return el(
    "div.empty",
    {},
    el("p", {}, "No jobs found. Check the text for typos, or search by:"),
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

function renderList(page, filter) {
  const list = el("ol.jobs", {}, page.jobs.map(renderListItem));
  const more = el("div.more");
  const renderMore = (cursor) => {
    const label = list.children.length ? "Show more" : "No matches yet. Keep searching";
    more.replaceChildren(...(cursor ? [button(label, () => next(cursor))] : []));
  };
  async function next(cursor) {
    more.setAttribute("aria-busy", "true");
    try {
      const rest = await jobs({ ...filter, limit: PAGE_SIZE, cursor });
      const added = rest.jobs.map(renderListItem);
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

function renderListItem(job) {
  const match = job.matched_by ? `found by ${job.matched_by}` : null;
  return el(
    "li.entry",
    {},
    timeElement(job.since),
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

function exportButton(filter) {
  async function save({ currentTarget: pressed }) {
    try {
      const { file, truncated } = await exportJobs(filter);
      const url = URL.createObjectURL(file);
      el("a", { href: url, download: `oncely-${filter.status}.csv` }).click();
      URL.revokeObjectURL(url);
      const incomplete =
        "The export may be incomplete: it hit the size or scan limit. Narrow the filters.";
      if (truncated) pressed.after(errorBox(incomplete));
      announce("List downloaded");
    } catch (error) {
      pressed.after(errorBox(capitalizeSentence(error.message)));
    }
  }
  return button("Download CSV", save, "button.plain", { id: "download" });
}

const countJobs = (number) => `${number} ${number === 1 ? "job" : "jobs"}`;
const countShown = (number, more) =>
  `${countJobs(number)} shown${more ? ", there are more" : ""}`;
