// One job: the answer in words, its facts, what can be done, what happened, and its contract.
import { ApiError, job as load } from "./api.js";
import { contractInWords } from "./contract.js";
import { announce, button, el, joined } from "./elements.js";
import { answers, openRepair } from "./repair.js";
import { badge, findPlace, sentence, time } from "./words.js";

const WIDE = matchMedia("(min-width: 60rem)");
const READS_ONLY =
  "You can look, and not repair: that takes the group operator. Ask one of them, and give them the key above.";

export async function showJob({ name: key }, context) {
  try {
    const job = await load(key, context.signal);
    return { title: `${job.status_words}: ${job.job_key}`, nodes: [whole(job, context)] };
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return noSuchJob(key);
    throw error;
  }
}

function noSuchJob(key) {
  const nodes = [
    el("h1", { tabindex: "-1" }, "There is no such job"),
    el("p", {}, "No job has the key ", el("bdi.code", {}, key), "."),
    el("p", {}, "Check it for a typing mistake, or search by order or customer above."),
  ];
  return { title: "No such job", nodes };
}

/** The whole view; a repair draws it again, with what came of it. */
function whole(job, context, outcome = null) {
  const redraw = (answer, label) => {
    const next = whole(answer.job, context, { ...answer, label });
    article.replaceWith(next);
    next.querySelector(".outcome h2").focus();
  };
  const article = el(
    "article.job",
    {},
    head(job, context, outcome),
    facts(job),
    el(
      "section.story",
      {},
      el("h2", {}, "What happened"),
      el("ol.timeline", {}, job.timeline.map(moment)),
    ),
    el("div.side", {}, repairs(job, context, redraw), job.contract ? contract(job) : null),
    stored(job),
  );
  return article;
}

function head(job, { reload }, outcome) {
  const standing = el("span", {}, badge(job), " since ", time(job.since));
  const refresh = button("Refresh", reload, "button.plain", { id: "refresh" });
  return el(
    "header",
    {},
    el(
      "div.heading",
      {},
      el("p.key", {}, el("bdi", {}, job.job_key)),
      el("div.actions", {}, copy("Copy key", job.job_key), refresh),
    ),
    el("h1", { tabindex: "-1" }, job.headline),
    el("p.standing", {}, standing),
    outcome ? beside(outcome) : null,
  );
}

/** What the provider said, beside what our own record says now. */
function beside({ label, said, job }) {
  return el(
    "section.outcome",
    {},
    el("h2", { tabindex: "-1" }, `${label}: recorded`),
    answers(said, job),
  );
}

function facts(job) {
  const reference = job.provider_ref && [
    el("span.code", {}, job.provider_ref),
    " ",
    copy("Copy", job.provider_ref, "Copy the provider reference"),
  ];
  const exactly = (stamp) => stamp && time(stamp, { exact: true });
  const rows = [
    ["Order or record", job.subject && el("a", { href: findPlace(job.subject) }, job.subject)],
    ["Customer", job.customer_id && el("a", { href: findPlace(job.customer_id) }, job.customer_id)],
    ["Provider reference", reference],
    ["Request id", job.request_id && el("span.code", {}, job.request_id)],
    ["Attempts", String(job.attempts)],
    ["Last error", job.last_error],
    ["Last try", exactly(job.last_try)],
    ["Next look", exactly(job.next_look)],
    ["Created", exactly(job.created_at)],
  ];
  if (job.amount_words) rows.unshift(["Amount", job.amount_words]);
  if (job.expires_at) rows.push(["Expires", time(job.expires_at)]);
  return el("section.facts", {}, el("h2", {}, "The job"), el("dl", {}, rows.map(fact)));
}

const fact = ([label, value]) =>
  el("div", {}, el("dt", {}, label), value ? el("dd", {}, value) : el("dd.none", {}, "none"));

function repairs(job, { person, reload }, redraw) {
  const can = el(
    "ul",
    {},
    // What can be done comes first; the order is the server's otherwise.
    job.repairs
      .toSorted((one, other) => Number(other.allowed) - Number(one.allowed))
      .map((offer) => repairOffer(offer, () => openRepair({ job, offer, reload, done: redraw }))),
  );
  return el(
    "section.repairs",
    {},
    el("h2", {}, "Repairs"),
    person.may_repair ? can : el("p", {}, READS_ONLY),
  );
}

function repairOffer(offer, begin) {
  const [id, why] = [`repair-${offer.repair}`, `why-${offer.repair}`];
  const more = { id, disabled: !offer.allowed, "aria-describedby": why };
  return el(
    "li",
    {},
    button(offer.label, begin, "button.button", more),
    el("p.why", { id: why }, offer.allowed ? sentence(offer.why) : `Not now: ${offer.why}`),
  );
}

function moment(entry) {
  const moved = entry.old && entry.old !== entry.new;
  const status = moved ? `${plain(entry.old)} → ${plain(entry.new)}` : plain(entry.new);
  const often = [
    ` ${entry.count} times, last `,
    entry.last_at && time(entry.last_at, { exact: true }),
  ];
  return el(
    "li",
    {},
    time(entry.at, { exact: true }),
    el(
      "div",
      {},
      el("p", {}, el("strong", {}, sentence(entry.words)), entry.count > 1 ? often : null),
      entry.reason ? el("p.reason", {}, entry.reason) : null,
      el("p.meta", {}, joined(entry.who, status)),
    ),
  );
}

const plain = (status) => status.replaceAll("_", " ");

function contract(job) {
  const summary = el("summary", {}, el("h2", {}, "The contract in plain language"));
  return el("details.contract", { open: WIDE.matches }, summary, contractInWords(job.contract));
}

function stored(job) {
  const text = (value) => el("pre", { tabindex: "0" }, JSON.stringify(value, null, 2));
  return el(
    "details.stored",
    {},
    el("summary", {}, el("h2", {}, "The message and the result, as stored")),
    el("h3", {}, "Message"),
    text(job.message),
    el("h3", {}, "Result"),
    job.result ? text(job.result) : el("p.none", {}, "none"),
  );
}

function copy(label, text, spoken = null) {
  async function take({ currentTarget: pressed }) {
    await navigator.clipboard.writeText(text);
    pressed.textContent = "Copied";
    announce("Copied");
    setTimeout(() => (pressed.textContent = label), 1500);
  }
  return button(label, take, "button.plain", { "aria-label": spoken });
}
