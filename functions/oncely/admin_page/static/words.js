// Times, statuses and places, as a person reads them.
import { el } from "./elements.js";

const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const dayAndYear = new Intl.DateTimeFormat(undefined, {
  day: "numeric",
  month: "short",
  year: "numeric",
});
const minutes = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const seconds = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});

/** A time in the reader's own zone; its title says it in UTC. */
export function time(stamp, { exact = false } = {}) {
  const at = new Date(stamp);
  if (Number.isNaN(at.getTime())) return el("span", {}, String(stamp));
  const date = at.getFullYear() === new Date().getFullYear() ? day : dayAndYear;
  const clock = exact ? seconds : minutes;
  return el("time", { datetime: stamp, title: utc(at) }, `${date.format(at)}, ${clock.format(at)}`);
}

/** How long ago something was: "4 min". */
export function age(stamp) {
  const passed = Math.max(0, Date.now() - new Date(stamp).getTime()) / 60_000;
  const words =
    passed < 1
      ? "under 1 min"
      : passed < 60
        ? `${Math.floor(passed)} min`
        : passed < 48 * 60
          ? `${Math.floor(passed / 60)} h`
          : `${Math.floor(passed / 1440)} days`;
  return el("time", { datetime: stamp, title: utc(new Date(stamp)) }, words);
}

function utc(at) {
  return at
    .toISOString()
    .replace("T", " ")
    .replace(/\.\d+Z$/, " UTC");
}

/** The status as a word with a mark; colour alone says nothing. */
export function badge(job) {
  return el(`span.badge.${job.status}`, {}, job.status_words);
}

/** A sentence: a capital at its start, a full stop at its end. */
export function sentence(text) {
  const words = text.trim();
  return words.charAt(0).toUpperCase() + words.slice(1) + (/[.!?]$/.test(words) ? "" : ".");
}

export const jobPlace = (key) => `#/job/${encodeURIComponent(key)}`;
export const findPlace = (text) => `#/find/${encodeURIComponent(text)}`;
