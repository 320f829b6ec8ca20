// The counts above the lists.
import { counts } from "./api.js";
import { el, replaceKeepingFocus } from "./elements.js";
import { ageElement } from "./format.js";

// Keep the last counts until new ones arrive, so that the layout does not jump.
let latest = null;

/** The strip with the last known counts. It updates itself when new ones arrive. */
export function countsStrip(signal) {
  const strip = el("section.counts", { "aria-label": "Now" }, renderCounts());
  counts(signal).then(
    (fresh) => {
      latest = fresh;
      replaceKeepingFocus(strip, renderCounts());
    },
    () => {}, // The list below shows the error. The strip keeps its last counts.
  );
  return strip;
}

function renderCounts() {
  const oldest = latest?.oldest_unresolved_at;
  return el(
    "dl",
    {},
    renderCount("Needs review", countLink("needs_review", "needs_review")),
    renderCount("Outcome unknown", countLink("unknown", "unknown")),
    renderCount("Pending", countLink("pending", "in_progress")),
    renderCount("Oldest unresolved", oldest ? ageElement(oldest) : noneOverdueText()),
    renderCount("Failed today", countLink("failed_today", "failed?when=today")),
  );
}

function noneOverdueText() {
  if (!latest) return "–";
  // A job that waits for its retry is pending but not overdue.
  return latest.pending ? "none overdue" : "none";
}

const renderCount = (label, value) => el("div", {}, el("dt", {}, label), el("dd", {}, value));

const countLink = (name, list) =>
  el("a", { id: `count-${name}`, href: `#/list/${list}` }, countText(name));

function countText(name) {
  if (!latest) return "–";
  return latest[name].toLocaleString() + (latest.truncated.includes(name) ? "+" : "");
}
