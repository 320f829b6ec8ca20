// Formats times, statuses and links.
import { el } from "./elements.js";

const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const dayAndYear = new Intl.DateTimeFormat(undefined, {
  day: "numeric",
  month: "short",
  year: "numeric",
});
const minutes = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  timeZoneName: "short",
});
const seconds = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  timeZoneName: "short",
});

/** A time in the reader's time zone, with UTC as its title. */
export function timeElement(stamp, { exact = false } = {}) {
  const at = new Date(stamp);
  if (Number.isNaN(at.getTime())) return el("span", {}, String(stamp));
  const date = at.getFullYear() === new Date().getFullYear() ? day : dayAndYear;
  const clock = exact ? seconds : minutes;
  return el(
    "time",
    { datetime: stamp, title: formatUtc(at) },
    `${date.format(at)}, ${clock.format(at)}`,
  );
}

/** The time since then: "4 min". */
export function ageElement(stamp) {
  const elapsed = Math.max(0, Date.now() - new Date(stamp).getTime()) / 60_000;
  const text =
    elapsed < 1
      ? "under 1 min"
      : elapsed < 60
        ? `${Math.floor(elapsed)} min`
        : elapsed < 48 * 60
          ? `${Math.floor(elapsed / 60)} h`
          : `${Math.floor(elapsed / 1440)} days`;
  return el("time", { datetime: stamp, title: formatUtc(new Date(stamp)) }, text);
}

/** How long ago a time was, or how far ahead: "4 min ago", "in 2 h". */
export function relativeTime(stamp) {
  const ahead = new Date(stamp).getTime() - Date.now();
  if (ahead <= 0) return el("span", {}, ageElement(stamp), " ago");
  const mirrored = new Date(Date.now() - ahead).toISOString();
  return el("span", {}, `in ${ageElement(mirrored).textContent}`);
}

/** A link to another site. Only https, whatever the server says. */
export function externalLink(url, name, detail) {
  if (!String(url).startsWith("https://")) return el("span", {}, `${name} ${detail}`);
  const attributes = { href: url, target: "_blank", rel: "noopener noreferrer" };
  return el("a", attributes, `${name} (${detail})`);
}

function formatUtc(at) {
  return at
    .toISOString()
    .replace("T", " ")
    .replace(/\.\d+Z$/, " UTC");
}

/** The status as text with a mark. Color alone carries no meaning. */
export function statusBadge(job) {
  return el(`span.badge.${job.status}`, {}, job.status_label);
}

/** Capitalize the first letter, unless a name begins the text, and end with a full stop. */
export function capitalizeSentence(text) {
  const trimmed = text.trim();
  const isName = /[_.:/#0-9]\S/.test(trimmed.split(/\s/, 1)[0]);
  const first = isName ? trimmed.charAt(0) : trimmed.charAt(0).toUpperCase();
  return first + trimmed.slice(1) + (/[.!?]$/.test(trimmed) ? "" : ".");
}

export const jobHref = (key) => `#/job/${encodeURIComponent(key)}`;
export const searchHref = (text) => `#/find/${encodeURIComponent(text)}`;
