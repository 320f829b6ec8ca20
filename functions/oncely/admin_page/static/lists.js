// Lists of jobs: by status, page by page, and what a search found.
import { exported, find, jobs } from "./api.js";
import { countsStrip } from "./counts.js";
import { announce, button, el, joined, problem } from "./elements.js";
import { filters, timeWindow } from "./filters.js";
import { badge, jobPlace, time } from "./words.js";

const LISTS = {
  needs_review: {
    title: "Needs review",
    empty:
      "Nothing needs review. A job comes here when no rule may decide; someone is alerted then.",
  },
  unknown: {
    title: "Outcome unknown",
    empty:
      "No outcome is unknown. A job comes here when a provider gave no clear answer; the reconciler then asks the provider again.",
  },
  failed: {
    title: "Failed",
    empty:
      "Nothing has failed. A job comes here when the provider said a plain no, such as a declined card.",
  },
  in_progress: {
    title: "In progress",
    empty:
      "Nothing is in progress. Jobs are here from their first message until their outcome is known.",
  },
  finished: {
    title: "Done",
    empty:
      "No job ended well in the last 24 hours. A job appears here a few minutes after it ended. To see older jobs, choose another time. Search finds any job at once.",
  },
};
const NO_MATCH = "No job matches these filters. Widen them, or search by order or customer.";
const PAGE = 25;

export async function showList({ name, query }, { person, signal, reload }) {
  const status = Object.hasOwn(LISTS, name) ? name : "needs_review";
  const { title, empty } = LISTS[status];
  const wanted = { status, type: query.get("type"), ...timeWindow(query) };
  const strip = countsStrip(signal);
  const page = await jobs({ ...wanted, limit: PAGE }, signal);
  // A page may be empty and go on: the server stops looking after many of another type.
  const some = page.jobs.length || page.cursor;
  const nothing = wanted.type || wanted.from || wanted.to ? NO_MATCH : empty;
  const nodes = [
    strip,
    heading(title, reload, person.may_repair ? download(wanted) : null),
    filters(status, query, person.job_types),
    some ? statement(page, wanted) : el("p.empty", {}, nothing),
  ];
  const said = some ? shownSoFar(page.jobs.length, page.cursor) : nothing;
  return { title, nodes, said };
}

export async function showFound({ name: text }, { signal, reload }) {
  const { jobs: found } = await find(text, signal);
  const title = `Results for “${text}”`;
  const nodes = [
    heading(title, reload),
    found.length ? statement({ jobs: found, cursor: null }) : whatToTry(),
  ];
  return {
    title,
    nodes,
    said: found.length ? `${count(found.length)} found` : "Nothing was found",
  };
}

function whatToTry() {
  const ways = [
    "the order, with or without its prefix: 18452 or order_18452",
    "the customer, as your own system names it",
    "the provider’s reference, such as pi_… from Stripe",
    "the whole job key: payment.charge:order_18452",
  ];
  return el(
    "div.empty",
    {},
    el("p", {}, "Nothing was found. Check it for a typing mistake, or try another way:"),
    el(
      "ul",
      {},
      ways.map((way) => el("li", {}, way)),
    ),
    el("p", {}, "A job that was never sent has left no trace here."),
  );
}

function heading(title, reload, ...actions) {
  const refresh = button("Refresh", reload, "button.plain", { id: "refresh" });
  return el(
    "div.heading",
    {},
    el("h1", { tabindex: "-1" }, title),
    el("div.actions", {}, ...actions, refresh),
  );
}

function statement(page, wanted) {
  const list = el("ol.statement", {}, page.jobs.map(entry));
  const more = el("div.more");
  const offer = (cursor) => {
    const label = list.children.length ? "Show more" : "No matches yet. Keep searching";
    more.replaceChildren(...(cursor ? [button(label, () => next(cursor))] : []));
  };
  async function next(cursor) {
    more.setAttribute("aria-busy", "true");
    try {
      const rest = await jobs({ ...wanted, limit: PAGE, cursor });
      const added = rest.jobs.map(entry);
      list.append(...added);
      offer(rest.cursor);
      (added[0]?.querySelector("a") ?? more.querySelector("button"))?.focus();
      announce(shownSoFar(list.children.length, rest.cursor));
    } catch (error) {
      more.replaceChildren(
        problem(
          error.message,
          button("Try again", () => next(cursor)),
        ),
      );
    } finally {
      more.removeAttribute("aria-busy");
    }
  }
  offer(page.cursor);
  return el("div", {}, list, more);
}

function entry(job) {
  const found = job.found_by ? `found by ${job.found_by}` : null;
  return el(
    "li.entry",
    {},
    time(job.since),
    el(
      "div.what",
      {},
      el("a", { href: jobPlace(job.job_key) }, job.headline),
      el("p.meta", {}, joined(job.job_key, job.customer_id, found)),
    ),
    el(
      "div.sum",
      {},
      job.amount_words ? el("span.amount", {}, job.amount_words) : null,
      badge(job),
    ),
  );
}

function download(wanted) {
  async function save({ currentTarget: pressed }) {
    try {
      const { file, more } = await exported(wanted);
      const address = URL.createObjectURL(file);
      el("a", { href: address, download: `oncely-${wanted.status}.csv` }).click();
      URL.revokeObjectURL(address);
      const full =
        "The export may be incomplete: it hit the size or scan limit. Narrow the filters.";
      if (more) pressed.after(problem(full));
      announce("The list was downloaded");
    } catch (error) {
      pressed.after(problem(error.message));
    }
  }
  return button("Download CSV", save, "button.plain", { id: "download" });
}

const count = (number) => `${number} ${number === 1 ? "job" : "jobs"}`;
const shownSoFar = (number, more) => `${count(number)} shown${more ? ", there are more" : ""}`;
