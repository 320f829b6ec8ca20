// The strip above the lists: how things stand now.
import { counts } from "./api.js";
import { el } from "./elements.js";
import { age } from "./words.js";

// The last figures stand until newer ones come, so that nothing jumps.
let figures = null;

/** The strip, with what is known; it fills itself when the figures come. */
export function countsStrip(signal) {
  const strip = el("section.counts", { "aria-label": "Now" }, drawn());
  counts(signal).then(
    (fresh) => {
      figures = fresh;
      strip.replaceChildren(drawn());
    },
    () => {}, // The list below says what is wrong; the strip keeps what it knew.
  );
  return strip;
}

function drawn() {
  const oldest = figures?.oldest_unresolved_at;
  return el(
    "dl",
    {},
    one("Needs review", linked("needs_review", "needs_review")),
    one("Outcome unknown", linked("unknown", "unknown")),
    one("Pending", linked("pending", "in_progress")),
    one("Oldest unresolved", oldest ? age(oldest) : noneOverdue()),
    one("Failed today", linked("failed_today", "failed?when=today")),
  );
}

function noneOverdue() {
  if (!figures) return "–";
  // A job that waits for its next try is pending, and nobody has to look at it.
  return figures.pending ? "none overdue" : "none";
}

const one = (label, value) => el("div", {}, el("dt", {}, label), el("dd", {}, value));

const linked = (name, place) => el("a", { href: `#/list/${place}` }, figure(name));

function figure(name) {
  if (!figures) return "–";
  return figures[name].toLocaleString() + (figures.more.includes(name) ? "+" : "");
}
