// Bar charts by hour, as SVG. Each has a text alternative, and one table has all their figures.
import { el } from "./elements.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
const WIDTH = 240;
const HEIGHT = 48;
// The smallest bar height, so that one failure is visible next to a thousand.
const MIN_BAR = 3;

const hourLabel = new Intl.DateTimeFormat(undefined, {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});

export const formatNumber = (value) => value.toLocaleString(undefined, { maximumFractionDigits: 1 });

/** A duration in seconds as text: "4 min". */
export function formatSeconds(seconds) {
  if (!seconds) return "none";
  if (seconds < 60) return `${Math.ceil(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 48 * 3600 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} days`;
}

/** A chart with its name, its total, and the hour with the highest bar. */
export function barChart({ name, title, note, hours, values, total, format = formatNumber }) {
  const highest = Math.max(...values);
  const peak = highest ? `most ${format(highest)} at ${formatHour(hours[values.indexOf(highest)])}` : "none";
  const facts = note ?? peak;
  return el(
    `figure.chart.${name}`,
    {},
    el(
      "figcaption",
      {},
      el("span.title", {}, title),
      el("span.total", {}, format(total)),
      el("span.meta", {}, facts),
    ),
    drawBars(values, highest, `${title} by hour: ${format(total)}; ${facts}.`),
    el(
      "div.axis",
      { "aria-hidden": "true" },
      el("span", {}, formatHour(hours[0])),
      el("span", {}, "now"),
    ),
  );
}

function drawBars(values, highest, label) {
  const step = WIDTH / values.length;
  const gap = values.length > 48 ? step * 0.15 : step * 0.25;
  const bars = values.map((value, index) => {
    if (!value) return null;
    const height = Math.max(MIN_BAR, (value / highest) * HEIGHT);
    const bar = { x: index * step + gap / 2, y: HEIGHT - height, width: step - gap, height };
    // The last hour is still incomplete.
    return svg("rect", index === values.length - 1 ? { ...bar, class: "partial" } : bar);
  });
  return svg(
    "svg",
    {
      role: "img",
      "aria-label": label,
      viewBox: `0 0 ${WIDTH} ${HEIGHT + 1}`,
      preserveAspectRatio: "none",
    },
    svg("line", { x1: 0, x2: WIDTH, y1: HEIGHT + 0.5, y2: HEIGHT + 0.5 }),
    ...bars.filter(Boolean),
  );
}

/** All charts as one table, the latest hour first. */
export function figuresTable(charts, hours) {
  const head = ["Hour", ...charts.map((chart) => chart.title)];
  const rows = hours.map((hour, index) => [
    el("th", { scope: "row" }, formatHour(hour)),
    ...charts.map(({ values, format = formatNumber }) => el("td", {}, format(values[index]))),
  ]);
  return el(
    "div.scroll",
    { tabindex: "0", role: "region", "aria-label": "Figures by hour" },
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, head.map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, rows.reverse().map((cells) => el("tr", {}, cells))),
    ),
  );
}

const formatHour = (stamp) => hourLabel.format(new Date(stamp));

function svg(tag, attributes, ...children) {
  const node = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
